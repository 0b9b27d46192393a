-- How much the rate varies within a trial's window, by path: the spread of its slices over their mean.
WITH of_trial AS (
    SELECT store, position, stddev_samp(iops) / avg(iops) AS spread
    FROM series
    GROUP BY store, position
    HAVING count(*) >= 5
)
SELECT t.path, t.setup, count(*) AS trials, avg(s.spread) AS mean_spread, max(s.spread) AS most_spread
FROM of_trial s
JOIN trials t ON t.store = s.store AND t.position = s.position
WHERE t.competes
GROUP BY t.path, t.setup
ORDER BY t.path, t.setup
