-- Requests by subject, and their latency, exact: those with most requests and failures first. Subjects with
-- few requests are one row.
WITH named AS (
    SELECT $generic_subject AS subject, outcome, latency_ns FROM requests
),
ranked AS (
    SELECT
        subject,
        row_number() OVER (
            ORDER BY count(*) + 10 * count(*) FILTER (WHERE outcome <> 'ok') DESC, subject
        ) AS place
    FROM named GROUP BY subject
)
SELECT
    CASE WHEN place <= $limit THEN named.subject ELSE '(others)' END AS subject,
    count(*) AS requests,
    count(*) FILTER (WHERE outcome <> 'ok') AS failures,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ns) AS median_ns,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY latency_ns) AS p99_ns,
    max(latency_ns) AS max_ns
FROM named INNER JOIN ranked ON named.subject = ranked.subject
GROUP BY 1
ORDER BY count(*) + 10 * count(*) FILTER (WHERE outcome <> 'ok') DESC, 1
