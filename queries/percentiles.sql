-- Percentiles over all I/Os of a kind's hosts, of histograms added up: a mean of percentiles is none. A value
-- is the upper end of its bucket, at most 1/128 above.
WITH added AS (
    SELECT machine, drive, kernel, setup, path, high_ns, sum(ios) AS ios
    FROM latencies
    WHERE op = 'all'
    GROUP BY machine, drive, kernel, setup, path, high_ns
),
running AS (
    SELECT machine, drive, kernel, setup, path, high_ns,
        sum(ios) OVER (PARTITION BY machine, drive, kernel, setup, path ORDER BY high_ns) AS until,
        sum(ios) OVER (PARTITION BY machine, drive, kernel, setup, path) AS ios
    FROM added
)
SELECT machine, drive, kernel, setup, path, max(ios) AS ios,
    min(CASE WHEN until * 100 >= ios * 50 THEN high_ns END) AS p50_ns,
    min(CASE WHEN until * 100 >= ios * 99 THEN high_ns END) AS p99_ns,
    min(CASE WHEN until * 1000 >= ios * 999 THEN high_ns END) AS p99_9_ns
FROM running
GROUP BY machine, drive, kernel, setup, path
ORDER BY machine, drive, kernel, setup, path
