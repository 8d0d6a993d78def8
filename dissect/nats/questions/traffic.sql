-- Messages and their bytes by kind of connection and direction, and errors and losses, in bins of time.
WITH events AS (
    SELECT
        ts_ns, 'messages' AS measure, kind AS name, sender,
        payload_bytes + coalesce(header_bytes, 0) AS bytes
    FROM frames WHERE payload_bytes IS NOT NULL
    UNION ALL
    SELECT ts_ns, 'events', '-ERR', '', 0 FROM frames WHERE op = '-ERR'
    UNION ALL
    SELECT ts_ns, 'events', anomaly, '', 0 FROM anomalies
    UNION ALL
    SELECT coalesce(replied_ns, sent_ns), 'events', 'no responders', '', 0
    FROM requests WHERE outcome = 'no_responders'
    UNION ALL
    SELECT ts_ns, 'events', 'redelivered', '', 0 FROM deliveries WHERE delivered_count > 1
),
span AS (SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM events),
bins AS ($width_of_span)
SELECT
    width_ns, $bin AS bin_ns, measure, name, sender, count(*) AS count, sum(bytes) AS bytes
FROM events CROSS JOIN bins
GROUP BY 1, 2, 3, 4, 5
ORDER BY bin_ns
