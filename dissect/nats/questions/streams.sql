-- Streams over all sessions, with the latest number of messages that the API told. Those with little traffic
-- are one row.
WITH named AS (
    SELECT
        coalesce(account, '') AS account, coalesce(domain, '') AS domain, stream,
        sum(publishes) AS publishes, sum(publish_bytes) AS publish_bytes,
        sum(publish_errors) AS publish_errors, sum(duplicates) AS duplicates,
        sum(deliveries) AS deliveries, sum(redeliveries) AS redeliveries,
        sum(created) AS created, sum(deleted) AS deleted, sum(purged) AS purged,
        coalesce(max(last_seq), 0) AS last_seq,
        max_by(messages, last_ns) FILTER (WHERE messages IS NOT NULL) AS messages,
        sum(publishes) + sum(deliveries) + 1000 * (sum(deleted) + sum(publish_errors)) AS weight
    FROM streams
    GROUP BY 1, 2, 3
),
ranked AS (
    SELECT *, row_number() OVER (ORDER BY weight DESC, account, domain, stream) > $limit AS is_rare
    FROM named
)
SELECT
    CASE WHEN is_rare THEN '' ELSE account END AS account,
    CASE WHEN is_rare THEN '' ELSE domain END AS domain,
    CASE WHEN is_rare THEN '(others)' ELSE stream END AS stream,
    sum(publishes) AS publishes, sum(publish_bytes) AS publish_bytes,
    sum(publish_errors) AS publish_errors, sum(duplicates) AS duplicates,
    sum(deliveries) AS deliveries, sum(redeliveries) AS redeliveries,
    sum(created) AS created, sum(deleted) AS deleted, sum(purged) AS purged,
    max(last_seq) AS last_seq, max(messages) AS messages
FROM ranked
GROUP BY 1, 2, 3
ORDER BY sum(weight) DESC, 1, 2, 3
