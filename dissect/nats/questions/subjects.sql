-- Messages and bytes by subject: published by clients, delivered to clients, passed between servers.
SELECT
    $generic_subject AS subject,
    count(*) FILTER (WHERE kind = 'client' AND sender = 'originator') AS published,
    count(*) FILTER (WHERE kind = 'client' AND sender <> 'originator') AS delivered,
    count(*) FILTER (WHERE kind <> 'client') AS passed,
    sum(payload_bytes + coalesce(header_bytes, 0)) AS bytes
FROM frames
WHERE payload_bytes IS NOT NULL AND subject IS NOT NULL
GROUP BY 1
