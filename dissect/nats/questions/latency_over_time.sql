-- Percentiles of latency in bins of time, exact.
WITH events AS (
    SELECT coalesce(replied_ns, sent_ns) AS ts_ns, latency_ns
    FROM requests WHERE latency_ns IS NOT NULL
),
span AS (SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM events),
bins AS ($width_of_span)
SELECT
    width_ns, $bin AS bin_ns,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
    percentile_disc(0.9) WITHIN GROUP (ORDER BY latency_ns) AS p90_ns,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns
FROM events CROSS JOIN bins
GROUP BY 1, 2
ORDER BY bin_ns
