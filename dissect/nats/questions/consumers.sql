-- Consumers over all sessions, with the latest state that a delivery or the API told. Those with little
-- traffic are one row.
WITH named AS (
    SELECT
        coalesce(account, '') AS account, coalesce(domain, '') AS domain, stream, consumer,
        coalesce(sum(pulls), 0) AS pulls, coalesce(sum(deliveries), 0) AS deliveries,
        coalesce(sum(redeliveries), 0) AS redeliveries, coalesce(sum(acks), 0) AS acks,
        coalesce(sum(naks), 0) AS naks, coalesce(sum(terms), 0) AS terms,
        max(max_deliveries) AS max_deliveries, max(max_pending) AS max_pending,
        max(ack_p99_ns) AS ack_p99_ns,
        max_by(coalesce(last_pending, num_pending), last_ns)
            FILTER (WHERE coalesce(last_pending, num_pending) IS NOT NULL) AS pending,
        max_by(num_ack_pending, last_ns) FILTER (WHERE num_ack_pending IS NOT NULL) AS ack_pending
    FROM consumers
    GROUP BY 1, 2, 3, 4
),
weighed AS (SELECT *, deliveries + pulls + 100 * redeliveries AS weight FROM named),
ranked AS (
    SELECT
        *,
        row_number() OVER (
            ORDER BY weight DESC, account, domain, stream, consumer
        ) > $limit AS is_rare
    FROM weighed
)
SELECT
    CASE WHEN is_rare THEN '' ELSE account END AS account,
    CASE WHEN is_rare THEN '' ELSE domain END AS domain,
    CASE WHEN is_rare THEN '(others)' ELSE stream END AS stream,
    CASE WHEN is_rare THEN '' ELSE consumer END AS consumer,
    sum(pulls) AS pulls, sum(deliveries) AS deliveries, sum(redeliveries) AS redeliveries,
    sum(acks) AS acks, sum(naks) AS naks, sum(terms) AS terms,
    max(max_deliveries) AS max_deliveries, max(max_pending) AS max_pending,
    max(ack_p99_ns) AS ack_p99_ns, max(pending) AS pending, max(ack_pending) AS ack_pending
FROM ranked
GROUP BY 1, 2, 3, 4
ORDER BY sum(weight) DESC, 1, 2, 3, 4
