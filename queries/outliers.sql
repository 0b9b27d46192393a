-- Hosts that are slower or faster than others of their kind: the median of a host's latency over the kind's,
-- over all set-ups and paths, and how many robust standard deviations (1.4826 MAD) it is off.
-- Far is 3.5 of these, and 5 %.
WITH of_store AS (
    SELECT machine, drive, kernel, setup, path, coalesce(host, store) AS host, store,
        avg(latency_ns_mean) AS latency_ns
    FROM trials
    WHERE competes AND latency_ns_mean > 0
    GROUP BY machine, drive, kernel, setup, path, coalesce(host, store), store
),
of_host AS (
    SELECT machine, drive, kernel, setup, path, host, avg(latency_ns) AS latency_ns
    FROM of_store
    GROUP BY machine, drive, kernel, setup, path, host
),
of_kind AS (
    SELECT machine, drive, kernel, setup, path, median(latency_ns) AS latency_ns
    FROM of_host
    GROUP BY machine, drive, kernel, setup, path
),
relative AS (
    SELECT h.machine, h.drive, h.kernel, h.host, median(h.latency_ns / k.latency_ns) AS of_kind
    FROM of_host h
    JOIN of_kind k ON h.machine = k.machine AND h.drive = k.drive AND h.kernel = k.kernel
        AND h.setup = k.setup AND h.path = k.path
    GROUP BY h.machine, h.drive, h.kernel, h.host
),
middle AS (
    SELECT machine, drive, kernel, count(*) AS hosts, median(of_kind) AS middle
    FROM relative
    GROUP BY machine, drive, kernel
),
spread AS (
    SELECT r.machine, r.drive, r.kernel, m.hosts, m.middle,
        1.4826 * median(abs(r.of_kind - m.middle)) AS deviation
    FROM relative r
    JOIN middle m ON r.machine = m.machine AND r.drive = m.drive AND r.kernel = m.kernel
    GROUP BY r.machine, r.drive, r.kernel, m.hosts, m.middle
)
SELECT r.machine, r.drive, r.kernel, r.host, s.hosts, r.of_kind,
    (r.of_kind - s.middle) / s.deviation AS deviations
FROM relative r
JOIN spread s ON r.machine = s.machine AND r.drive = s.drive AND r.kernel = s.kernel
WHERE s.hosts >= 5 AND s.deviation > 0 AND abs(r.of_kind - s.middle) > 3.5 * s.deviation
    AND abs(r.of_kind - s.middle) > 0.05
ORDER BY r.machine, r.drive, r.kernel, r.host
