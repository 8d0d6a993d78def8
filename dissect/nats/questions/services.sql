-- Endpoints of services, those with most errors and requests first.
SELECT
    service, endpoint, subject, side, requests, errors, latency_median_ns, latency_p99_ns,
    latency_max_ns, last_error, count(*) OVER () AS seen
FROM services
ORDER BY errors DESC, requests DESC, session DESC, number DESC
LIMIT $limit
