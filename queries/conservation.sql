-- Whether the drives did the I/O that was issued: reads and writes of the devices over those of the trials.
SELECT kernel, verdict, count(*) AS trials, sum(reads + writes) AS issued,
    sum(device_reads + device_writes) AS done,
    sum(interrupts) AS interrupts
FROM evidence
WHERE device_reads IS NOT NULL
GROUP BY kernel, verdict
ORDER BY kernel, verdict
