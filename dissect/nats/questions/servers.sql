-- Servers by name, with the latest cluster and version that a session tells.
WITH names AS (
    SELECT server_id AS id, min(server_name) AS name
    FROM sessions WHERE server_id <> '' AND server_name <> ''
    GROUP BY 1
),
told AS (
    SELECT
        coalesce(near.name, $server) AS name, s.first_ns, nullif(s.cluster, '') AS cluster,
        nullif(s.server_version, '') AS version
    FROM sessions AS s
    LEFT JOIN names AS near ON near.id = s.server_id AND coalesce(s.server_name, '') = ''
    UNION ALL
    SELECT
        coalesce(far.name, $who), s.first_ns, nullif(s.remote_cluster, ''),
        nullif(s.client_version, '')
    FROM sessions AS s
    LEFT JOIN names AS far ON far.id = $who
    WHERE s.kind IN ('route', 'gateway', 'leafnode')
        AND coalesce(far.name, $who) <> coalesce(s.server_id, '')
)
SELECT
    name,
    coalesce(max_by(cluster, first_ns) FILTER (WHERE cluster IS NOT NULL), '') AS cluster,
    coalesce(max_by(version, first_ns) FILTER (WHERE version IS NOT NULL), '') AS version
FROM told
GROUP BY name
ORDER BY count(*) DESC, name
LIMIT $limit
