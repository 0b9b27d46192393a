-- What the path with the least joules for each I/O saves against plain io_uring, by kind of machine; and what
-- it costs in latency and CPU time.
WITH of_path AS (
    SELECT t.machine, t.drive, t.kernel, t.setup, t.path, count(DISTINCT t.host) AS hosts,
        avg(e.joules_per_io) AS joules_per_io, avg(t.latency_ns_mean) AS latency_ns,
        avg(t.cpu_ns_per_io) AS cpu_ns
    FROM trials t
    JOIN energy e ON t.store = e.store AND t.position = e.position
    WHERE t.competes AND e.scope = 'system' AND NOT e.estimated AND e.joules_per_io IS NOT NULL
    GROUP BY t.machine, t.drive, t.kernel, t.setup, t.path
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY machine, drive, kernel, setup ORDER BY joules_per_io, path) AS place
    FROM of_path
)
SELECT best.machine, best.drive, best.kernel, best.setup, best.path, best.hosts,
    1 - best.joules_per_io / plain.joules_per_io AS joules_saved,
    1 - best.latency_ns / plain.latency_ns AS latency_saved,
    1 - best.cpu_ns / plain.cpu_ns AS cpu_saved
FROM ranked best
JOIN of_path plain ON best.machine = plain.machine AND best.drive = plain.drive
    AND best.kernel = plain.kernel AND best.setup = plain.setup
    AND plain.path = 'io_uring/syscall/interrupt'
WHERE best.place = 1
ORDER BY best.machine, best.drive, best.kernel, best.setup
