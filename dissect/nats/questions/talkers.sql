-- What each originator sent and received, by name. Those with few bytes are one row.
WITH named AS (
    SELECT
        $who AS name,
        count(*) AS sessions,
        sum(messages_originator) AS sent,
        sum(bytes_originator) AS sent_bytes,
        sum(messages_responder) AS received,
        sum(bytes_responder) AS received_bytes,
        sum($errors) AS errors
    FROM sessions
    GROUP BY 1
),
weighed AS (SELECT *, sent_bytes + received_bytes + sessions AS weight FROM named),
ranked AS (SELECT *, row_number() OVER (ORDER BY weight DESC, name) AS place FROM weighed)
SELECT
    CASE WHEN place <= $limit THEN name ELSE '(others)' END AS name,
    sum(sessions) AS sessions,
    sum(sent) AS sent,
    sum(sent_bytes) AS sent_bytes,
    sum(received) AS received,
    sum(received_bytes) AS received_bytes,
    sum(errors) AS errors,
    sum(weight) AS weight
FROM ranked
GROUP BY 1
ORDER BY weight DESC, 1
