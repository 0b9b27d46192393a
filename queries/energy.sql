-- What an I/O takes in joules, by path and scope. Scopes are never added up, and models are no meters.
SELECT scope, meter, setup, path, count(*) AS trials, count(DISTINCT host) AS hosts,
    sum(joules) / sum(ios) * 1e6 AS microjoules_per_io, avg(watts) AS mean_watts
FROM energy
WHERE competes AND NOT estimated AND joules IS NOT NULL
GROUP BY scope, meter, setup, path
ORDER BY scope, meter, setup, path
