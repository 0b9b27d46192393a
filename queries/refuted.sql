-- How often a path that was asked for is not the path that was taken, by kernel.
SELECT kernel, path, count(*) AS trials,
    sum(CASE WHEN verdict = 'refuted' THEN 1 ELSE 0 END) AS refuted,
    sum(CASE WHEN error IS NOT NULL THEN 1 ELSE 0 END) AS failed,
    avg(CASE WHEN verdict = 'refuted' THEN 1e0 ELSE 0e0 END) AS refuted_share
FROM trials
WHERE in_force
GROUP BY kernel, path
ORDER BY kernel, path
