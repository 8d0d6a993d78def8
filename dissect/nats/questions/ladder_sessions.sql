-- The sessions that have a ladder: the first ones, with the numbers of their first and last frames.
SELECT
    session, count(*) AS frames, min(number) AS first, max(number) AS last,
    count(*) OVER () AS seen, sum(count(*)) OVER () AS all_frames
FROM frames
GROUP BY session
ORDER BY min(ts_ns), session
LIMIT $limit
