-- Sessions with a receiver that was too slow, those with most bytes first.
SELECT
    session, kind, originator, responder, client_name, slow_consumer, errors,
    count(*) OVER () AS seen
FROM sessions
WHERE slow_consumer <> ''
ORDER BY bytes_originator + bytes_responder DESC, first_ns, session
LIMIT $limit
