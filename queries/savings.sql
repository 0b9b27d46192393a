-- What the path with the least joules for each I/O saves against plain io_uring, by kind of machine; and what
-- it costs in latency and CPU time. Paths compete that are verified in 95 % of their trials and on 95 % of
-- the hosts, by the hosts that have joules for each of them. Hosts are the replicates, compared with
-- themselves.
WITH seen AS (
    SELECT machine, drive, kernel, setup, path, coalesce(host, store) AS host, store, competes, verdict,
        CASE WHEN competes AND ios > 0 AND joules_system > 0 THEN joules_system / ios END AS joules,
        CASE WHEN competes AND latency_ns_mean > 0 THEN latency_ns_mean END AS latency,
        CASE WHEN competes AND cpu_ns_per_io > 0 THEN cpu_ns_per_io END AS cpu
    FROM trials
    WHERE in_force
),
of_store AS (
    SELECT machine, drive, kernel, setup, path, host, store, count(*) AS trials,
        sum(CASE WHEN verdict = 'verified' THEN 1 ELSE 0 END) AS verified,
        sum(CASE WHEN verdict = 'refuted' THEN 1 ELSE 0 END) AS refuted,
        sum(CASE WHEN competes THEN 1 ELSE 0 END) AS competing,
        avg(joules) AS joules, avg(latency) AS latency, avg(cpu) AS cpu
    FROM seen
    GROUP BY machine, drive, kernel, setup, path, host, store
),
of_host AS (
    SELECT machine, drive, kernel, setup, path, host, sum(trials) AS trials, sum(verified) AS verified,
        CASE WHEN sum(refuted) = 0 AND sum(competing) > 0 THEN 1 ELSE 0 END AS is_verified,
        avg(joules) AS joules, avg(latency) AS latency, avg(cpu) AS cpu
    FROM of_store
    GROUP BY machine, drive, kernel, setup, path, host
),
of_setup AS (
    SELECT machine, drive, kernel, setup, count(DISTINCT host) AS hosts
    FROM seen
    GROUP BY machine, drive, kernel, setup
),
sound AS (
    SELECT h.machine, h.drive, h.kernel, h.setup, h.path
    FROM of_host h
    JOIN of_setup s ON h.machine = s.machine AND h.drive = s.drive AND h.kernel = s.kernel
        AND h.setup = s.setup
    GROUP BY h.machine, h.drive, h.kernel, h.setup, h.path, s.hosts
    HAVING sum(h.verified) * 100 >= sum(h.trials) * 95 AND sum(h.is_verified) * 100 >= s.hosts * 95
),
measured AS (
    SELECT h.*,
        count(*) OVER (PARTITION BY h.machine, h.drive, h.kernel, h.setup, h.host) AS measured_paths
    FROM of_host h
    JOIN sound s ON h.machine = s.machine AND h.drive = s.drive AND h.kernel = s.kernel
        AND h.setup = s.setup AND h.path = s.path
    WHERE h.joules IS NOT NULL
),
paths AS (
    SELECT machine, drive, kernel, setup, count(*) AS sound_paths
    FROM sound
    GROUP BY machine, drive, kernel, setup
),
of_path AS (
    SELECT m.machine, m.drive, m.kernel, m.setup, m.path, count(*) AS hosts, avg(m.joules) AS joules
    FROM measured m
    JOIN paths p ON m.machine = p.machine AND m.drive = p.drive AND m.kernel = p.kernel
        AND m.setup = p.setup AND m.measured_paths = p.sound_paths
    GROUP BY m.machine, m.drive, m.kernel, m.setup, m.path
    HAVING count(*) >= 2
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY machine, drive, kernel, setup ORDER BY joules, path) AS place
    FROM of_path
)
SELECT best.machine, best.drive, best.kernel, best.setup, best.path, best.hosts,
    1 - sum(CASE WHEN plain.joules IS NOT NULL THEN own.joules END)
        / sum(CASE WHEN own.joules IS NOT NULL THEN plain.joules END) AS joules_saved,
    1 - sum(CASE WHEN plain.latency IS NOT NULL THEN own.latency END)
        / sum(CASE WHEN own.latency IS NOT NULL THEN plain.latency END) AS latency_saved,
    1 - sum(CASE WHEN plain.cpu IS NOT NULL THEN own.cpu END)
        / sum(CASE WHEN own.cpu IS NOT NULL THEN plain.cpu END) AS cpu_saved
FROM ranked best
JOIN of_host own ON best.machine = own.machine AND best.drive = own.drive
    AND best.kernel = own.kernel AND best.setup = own.setup AND best.path = own.path
JOIN of_host plain ON own.machine = plain.machine AND own.drive = plain.drive
    AND own.kernel = plain.kernel AND own.setup = plain.setup AND own.host = plain.host
    AND plain.path = 'io_uring/syscall/interrupt'
WHERE best.place = 1
GROUP BY best.machine, best.drive, best.kernel, best.setup, best.path, best.hosts
ORDER BY best.machine, best.drive, best.kernel, best.setup
