-- The hops of the messages that passed most servers.
WITH ways AS (
    SELECT message, count(*) AS hops, min(CASE WHEN hop = 1 THEN ts_ns END) AS first_ns
    FROM paths WHERE hop <= $hops
    GROUP BY message
    HAVING count(*) > 1 AND min(hop) = 1
),
passed AS (
    SELECT message, count(DISTINCT server) AS servers
    FROM (
        SELECT message, from_server AS server FROM paths WHERE hop <= $hops
        UNION ALL
        SELECT message, to_server FROM paths WHERE hop <= $hops
    ) AS ends
    WHERE server <> ''
    GROUP BY message
),
longest AS (
    SELECT
        w.message,
        row_number() OVER (
            ORDER BY coalesce(p.servers, 0) DESC, w.hops DESC, w.first_ns, w.message DESC
        ) AS place,
        count(*) OVER () AS seen
    FROM ways AS w LEFT JOIN passed AS p ON w.message = p.message
)
SELECT
    p.message, p.hop, p.session, p.number, p.ts_ns, p.from_server, p.to_server, p.op, p.subject,
    p.matched_by, p.copies, l.place, l.seen
FROM paths AS p INNER JOIN longest AS l ON p.message = l.message
WHERE l.place <= $limit AND p.hop <= $hops
ORDER BY l.place, p.hop
