-- How many requests were answered in each bucket of latency, by the smallest latency of the bucket.
SELECT $bucket AS bucket_ns, count(*) AS count
FROM (
    SELECT greatest(latency_ns, 0) AS duration_ns FROM requests WHERE latency_ns IS NOT NULL
) AS known
GROUP BY 1
ORDER BY 1
