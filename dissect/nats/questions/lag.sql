-- The most messages that waited for each consumer, in bins of time; for consumers for which few waited, one
-- series.
WITH events AS (
    SELECT
        ts_ns, coalesce(account, '') AS account, coalesce(domain, '') AS domain,
        coalesce(stream, '') AS stream, coalesce(consumer, '') AS consumer, pending
    FROM deliveries WHERE pending IS NOT NULL
),
span AS (SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM events),
bins AS ($width_of_span),
ranked AS (
    SELECT
        account, domain, stream, consumer,
        row_number() OVER (ORDER BY max(pending) DESC, account, domain, stream, consumer) AS place
    FROM events GROUP BY account, domain, stream, consumer
)
SELECT
    width_ns, $bin AS bin_ns,
    CASE WHEN place <= $limit THEN concat_ws('/', nullif(e.account, ''), nullif(e.domain, ''),
        nullif(e.stream, ''), nullif(e.consumer, '')) ELSE '(others)' END AS name,
    max(pending) AS pending
FROM events AS e
INNER JOIN ranked AS r
    ON e.account = r.account AND e.domain = r.domain AND e.stream = r.stream
    AND e.consumer = r.consumer
CROSS JOIN bins
GROUP BY 1, 2, 3
ORDER BY name, bin_ns
