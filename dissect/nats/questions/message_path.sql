-- The first hops of a message, `SESSION:NUMBER`, of which the beginning of SESSION is enough.
SELECT
    message, session, number, ts_ns, from_server, to_server, op, subject, matched_by,
    count(*) OVER () AS steps, min(message) OVER () AS one, max(message) OVER () AS another
FROM paths
WHERE message LIKE '$session%' AND message LIKE '%:$number'
ORDER BY ts_ns, hop
LIMIT $limit
