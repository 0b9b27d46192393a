-- Percentiles over all I/Os of a kind's hosts, of histograms added up: a mean of percentiles is none. A value
-- is the upper end of its bucket, at most 1/128 above. Kinds get numbers first: adding up is then quick.
WITH kind AS (
    SELECT *, row_number() OVER (ORDER BY machine, drive, kernel, workload, path) AS number
    FROM (SELECT DISTINCT machine, drive, kernel, workload, path FROM histograms)
),
bucket AS (
    SELECT k.number, explode(h.buckets) AS b
    FROM histograms h
    JOIN kind k ON h.machine = k.machine AND h.drive = k.drive AND h.kernel = k.kernel
        AND h.workload = k.workload AND h.path = k.path
    WHERE h.competes AND h.op = 'all'
),
added AS (
    SELECT number, b.high_ns AS high_ns, sum(b.count) AS ios
    FROM bucket
    GROUP BY number, b.high_ns
),
running AS (
    SELECT number, high_ns,
        sum(ios) OVER (PARTITION BY number ORDER BY high_ns) AS until,
        sum(ios) OVER (PARTITION BY number) AS ios
    FROM added
),
percentile AS (
    SELECT number, max(ios) AS ios,
        min(CASE WHEN until * 100 >= ios * 50 THEN high_ns END) AS p50_ns,
        min(CASE WHEN until * 100 >= ios * 99 THEN high_ns END) AS p99_ns,
        min(CASE WHEN until * 1000 >= ios * 999 THEN high_ns END) AS p99_9_ns
    FROM running
    GROUP BY number
)
SELECT machine, drive, kernel, workload, path, ios, p50_ns, p99_ns, p99_9_ns
FROM percentile
JOIN kind ON percentile.number = kind.number
ORDER BY machine, drive, kernel, workload, path
