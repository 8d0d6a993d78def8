-- The first frames of a session, whose id begins with a name.
SELECT
    session, number, ts_ns, packet, sender, op, subject, queue, reply, total_bytes, error, status,
    status_text, anomalies,
    count(*) OVER () AS steps, min(session) OVER () AS one, max(session) OVER () AS another
FROM frames
WHERE session LIKE '$name%'
ORDER BY ts_ns, number
LIMIT $limit
