-- Which path is fastest for each set-up, by kind of machine. Hosts are the replicates: each counts once, by
-- the mean over its stores.
WITH of_store AS (
    SELECT machine, drive, kernel, setup, path, coalesce(host, store) AS host, store, avg(iops) AS iops
    FROM trials
    WHERE competes AND iops > 0
    GROUP BY machine, drive, kernel, setup, path, coalesce(host, store), store
),
of_host AS (
    SELECT machine, drive, kernel, setup, path, host, avg(iops) AS iops
    FROM of_store
    GROUP BY machine, drive, kernel, setup, path, host
),
of_kind AS (
    SELECT machine, drive, kernel, setup, path,
        count(*) AS hosts, avg(iops) AS mean_iops, min(iops) AS least_iops, max(iops) AS most_iops
    FROM of_host
    GROUP BY machine, drive, kernel, setup, path
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY machine, drive, kernel, setup ORDER BY mean_iops DESC, path) AS place
    FROM of_kind
)
SELECT machine, drive, kernel, setup, path, hosts, mean_iops, least_iops, most_iops
FROM ranked
WHERE place = 1
ORDER BY machine, drive, kernel, setup
