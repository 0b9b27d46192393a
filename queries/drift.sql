-- What a month changes: the slope of a straight line through each host's latency, relative to its mean, over
-- the hosts of a kind, if there are two. A month is 30 days. A host needs three stores over a month or more.
WITH of_store AS (
    SELECT machine, drive, kernel, coalesce(host, store) AS host, setup, path, store,
        min(began_unix_ns) / 2592000e9 AS month,
        avg(CASE WHEN competes AND latency_ns_mean > 0 THEN latency_ns_mean END) AS latency_ns
    FROM trials
    WHERE in_force
    GROUP BY machine, drive, kernel, coalesce(host, store), setup, path, store
),
of_host AS (
    SELECT machine, drive, kernel, host, setup, path, count(*) AS stores,
        regr_slope(latency_ns, month) / avg(latency_ns) AS per_month
    FROM of_store
    WHERE latency_ns IS NOT NULL
    GROUP BY machine, drive, kernel, host, setup, path
    HAVING count(*) >= 3 AND max(month) - min(month) >= 1
),
of_whole_host AS (
    SELECT machine, drive, kernel, host, avg(per_month) AS per_month
    FROM of_host
    GROUP BY machine, drive, kernel, host
)
SELECT machine, drive, kernel, count(*) AS hosts, avg(per_month) AS per_month,
    stddev_samp(per_month) / sqrt(count(*)) AS standard_error
FROM of_whole_host
GROUP BY machine, drive, kernel
HAVING count(*) >= 2
ORDER BY machine, drive, kernel
