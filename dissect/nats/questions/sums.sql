-- Sums over all sessions.
SELECT
    coalesce(sum(missing_bytes), 0) AS missing_bytes,
    coalesce(sum(skipped_bytes), 0) AS skipped_bytes,
    coalesce(sum(opaque_bytes), 0) AS opaque_bytes,
    coalesce(sum(unanswered_pings), 0) AS unanswered_pings,
    count(*) FILTER (WHERE start = 'midstream') AS midstream,
    count(*) FILTER (WHERE kind = 'unknown') AS unknown,
    count(lame_duck_ns) AS lame_duck,
    count(*) FILTER (WHERE transport LIKE '%tls') AS tls,
    count(*) FILTER (
        WHERE transport LIKE '%tls' AND coalesce(cardinality(frames_originator), 0) = 0
    ) AS undecrypted
FROM sessions
