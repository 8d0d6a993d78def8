-- The number of sessions and frames, the time that sessions take, messages and their bytes.
SELECT sessions, first_ns, last_ns, frames, messages, bytes
FROM (
    SELECT count(*) AS sessions, min(first_ns) AS first_ns, max(last_ns) AS last_ns FROM sessions
) AS s
CROSS JOIN (
    SELECT
        count(*) AS frames,
        count(payload_bytes) AS messages,
        coalesce(sum(payload_bytes + coalesce(header_bytes, 0)), 0) AS bytes
    FROM frames
) AS f
