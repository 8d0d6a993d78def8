-- Which subjects are answered slowly: from the packet of a request to that of its first reply, both
-- as seen where the capture was made, on the connection of whoever asked.
SELECT
  subject,
  count(*)                                                  AS answered,
  percentile_approx(latency_ns, 0.5) DIV 1000               AS p50_us,
  percentile_approx(latency_ns, 0.99) DIV 1000              AS p99_us,
  max(latency_ns) DIV 1000                                  AS slowest_us
FROM requests
WHERE responses > 0
GROUP BY subject
ORDER BY p99_us DESC, subject
LIMIT 10
