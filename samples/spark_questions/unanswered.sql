-- Requests without a reply. 503 is the server's word that nobody listened. `none seen` says less:
-- the reply may have come after the capture, so `watched_ms` is how long, at most, the session was
-- seen after the request; or it may be among the bytes that the capture lacks.
SELECT
  r.subject,
  CASE
    WHEN r.status = 503 THEN '503, nobody listens'
    WHEN s.missing_bytes + s.skipped_bytes > 0 THEN 'none seen, bytes are missing'
    ELSE 'none seen'
  END                                                       AS answer,
  count(*)                                                  AS requests,
  count(DISTINCT session)                                   AS sessions,
  max(IF(r.status = 503, NULL, (s.last_ns - r.sent_ns) DIV 1000000)) AS watched_ms
FROM requests r JOIN sessions s USING (session)
WHERE r.responses = 0
GROUP BY 1, 2
ORDER BY requests DESC, r.subject, answer
