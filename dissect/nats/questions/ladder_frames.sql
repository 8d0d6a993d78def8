-- The first and the last frames of each session that has a ladder, and from between them the first ones with
-- an error, a status or an anomaly.
WITH chosen AS (
    SELECT session, min(number) AS first, max(number) AS last
    FROM frames GROUP BY session ORDER BY min(ts_ns), session LIMIT $limit
),
sampled AS (
    SELECT
        f.*,
        f.number < c.first + $most OR f.number > c.last - $last AS is_end
    FROM frames AS f INNER JOIN chosen AS c ON f.session = c.session
    WHERE f.number < c.first + $most OR f.number > c.last - $last
        OR f.error <> '' OR f.status <> 0 OR len(f.anomalies) > 0
),
placed AS (
    SELECT *, row_number() OVER (PARTITION BY session, is_end ORDER BY number) AS place FROM sampled
)
SELECT
    session, number, ts_ns, packet, sender, op, subject, queue, reply, total_bytes, error, status,
    status_text, anomalies
FROM placed
WHERE is_end OR place <= $odd
ORDER BY session, number
