-- What an I/O takes in joules, by path and scope, and how that compares with plain io_uring. Hosts are the
-- replicates: each counts once, by the mean over its stores, and is compared with itself. Scopes are never
-- added up, and models are no meters.
WITH of_store AS (
    SELECT machine, drive, kernel, scope, meter, setup, path, coalesce(host, store) AS host, store,
        count(*) AS trials, avg(joules_per_io) AS joules, avg(watts) AS watts
    FROM energy
    WHERE competes AND NOT estimated AND joules_per_io > 0
    GROUP BY machine, drive, kernel, scope, meter, setup, path, coalesce(host, store), store
),
of_host AS (
    SELECT machine, drive, kernel, scope, meter, setup, path, host,
        sum(trials) AS trials, avg(joules) AS joules, avg(watts) AS watts
    FROM of_store
    GROUP BY machine, drive, kernel, scope, meter, setup, path, host
)
SELECT o.machine, o.drive, o.kernel, o.scope, o.meter, o.setup, o.path, count(*) AS hosts,
    sum(o.trials) AS trials, avg(o.joules) * 1e6 AS microjoules_per_io, avg(o.watts) AS mean_watts,
    count(p.joules) AS compared_hosts,
    sum(CASE WHEN p.joules IS NOT NULL THEN o.joules END) / sum(p.joules) AS of_plain
FROM of_host o
LEFT JOIN of_host p ON o.machine = p.machine AND o.drive = p.drive AND o.kernel = p.kernel
    AND o.scope = p.scope AND o.meter = p.meter AND o.setup = p.setup AND o.host = p.host
    AND p.path = 'io_uring/syscall/interrupt'
GROUP BY o.machine, o.drive, o.kernel, o.scope, o.meter, o.setup, o.path
ORDER BY o.machine, o.drive, o.kernel, o.scope, o.meter, o.setup, o.path
