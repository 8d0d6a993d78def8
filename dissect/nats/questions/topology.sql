-- Connections between two servers, or of a client to a server, by kind. A server that several sessions show
-- counts once. A route or gateway that ends before the INFO of its originator has only that server's id: it
-- is counted under the name that another session tells.
WITH names AS (
    SELECT server_id AS id, min(server_name) AS name
    FROM sessions WHERE server_id <> '' AND server_name <> ''
    GROUP BY 1
),
ends AS (
    SELECT
        s.session, s.kind, s.first_ns, s.server_id, s.cluster, s.server_version, s.remote_cluster,
        s.client_version,
        s.messages_originator + s.messages_responder AS messages,
        s.bytes_originator + s.bytes_responder AS bytes,
        $errors AS errors,
        coalesce(near.name, $server) AS server,
        CASE
            WHEN s.kind IN ('route', 'gateway', 'leafnode') THEN coalesce(far.name, $who)
            WHEN s.kind = 'client' THEN $who
            ELSE 'unknown'
        END AS other,
        s.kind IN ('route', 'gateway', 'leafnode') AS is_link
    FROM sessions AS s
    LEFT JOIN names AS near ON near.id = s.server_id AND coalesce(s.server_name, '') = ''
    LEFT JOIN names AS far ON far.id = $who
),
-- Without servers that connected to themselves, and noticed.
pairs AS (
    SELECT
        *,
        CASE WHEN is_link THEN least(server, other) ELSE server END AS one,
        CASE WHEN is_link THEN greatest(server, other) ELSE other END AS two,
        CASE WHEN is_link THEN kind ELSE '' END AS link
    FROM ends
    WHERE NOT is_link OR (other <> server AND other <> coalesce(server_id, ''))
),
placed AS (
    SELECT
        *, row_number() OVER (PARTITION BY one, two, link ORDER BY first_ns, session) AS place
    FROM pairs
)
SELECT
    one, two, link,
    count(*) AS count,
    sum(messages) AS messages,
    sum(bytes) AS bytes,
    sum(errors) AS errors,
    array_agg(CAST(first_ns AS STRING) || ' ' || session) FILTER (WHERE place <= 12) AS sessions,
    sum(count(*)) OVER () AS seen
FROM placed
GROUP BY one, two, link
ORDER BY 4 DESC, 1, 2, 3
LIMIT $limit
