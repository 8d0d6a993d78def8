-- How many deliveries were acked in each bucket of time, by the smallest time of the bucket.
SELECT $bucket AS bucket_ns, count(*) AS count
FROM (
    SELECT greatest(ack_latency_ns, 0) AS duration_ns
    FROM deliveries WHERE ack_latency_ns IS NOT NULL
) AS known
GROUP BY 1
ORDER BY 1
