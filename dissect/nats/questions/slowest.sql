-- The slowest requests.
SELECT
    session, reply, sent_ns, subject, outcome, error_code, latency_ns, request_bytes, reply_bytes
FROM requests
WHERE latency_ns IS NOT NULL
ORDER BY latency_ns DESC, sent_ns, session DESC, reply DESC
LIMIT $limit
