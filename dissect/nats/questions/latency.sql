-- The latency of all requests that were answered, exact.
SELECT
    count(latency_ns) AS count,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns,
    max(latency_ns) AS max_ns
FROM requests
