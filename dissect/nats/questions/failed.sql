-- The first requests that failed.
SELECT
    session, reply, sent_ns, subject, outcome, error_code, latency_ns, request_bytes, reply_bytes
FROM requests
WHERE outcome <> 'ok'
ORDER BY sent_ns, session DESC, reply DESC
LIMIT $limit
