-- Subjects that clients published to while these captures show no interest: no delivery and no
-- reply at any time, and no subscription that fits, on a connection of any kind, open between the
-- first message and the last. 503 is the server's word that nobody listened just then. Without it
-- nothing is proven: who listens may have subscribed before the capture, on a connection that is
-- not in it or cannot be read (TLS, WebSocket, S2), or inside a server (a stream, an import).
-- Accounts are not told apart: interest in one counts for all.
WITH published AS (
  SELECT subject, count(*) AS messages, count(DISTINCT session) AS sessions,
    min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
  FROM frames WHERE kind = 'client' AND op IN ('PUB', 'HPUB') GROUP BY subject
),
heard AS (  -- who asks for a reply listens; RMSG on a gateway may be sent without interest
  SELECT subject FROM frames
  WHERE op IN ('MSG', 'HMSG', 'LMSG') OR (op = 'RMSG' AND kind = 'route')
  UNION SELECT reply FROM frames WHERE reply IS NOT NULL
  UNION SELECT subject FROM requests WHERE responses > 0
),
refused AS (
  SELECT DISTINCT subject, true AS by_server FROM requests WHERE status = 503 AND responses = 0
),
silent AS (  -- once for each token that a fitting subscription may begin with
  SELECT *, split(subject, '[.]') AS tokens, explode(array(split(subject, '[.]')[0], '*', '>')) AS first
  FROM published LEFT ANTI JOIN heard USING (subject) LEFT ANTI JOIN refused USING (subject)
),
wanted AS (
  SELECT split(subject, '[.]') AS tokens, split(subject, '[.]')[0] AS first, opened_ns, closed_ns
  FROM subscriptions WHERE subject IS NOT NULL AND NOT close <=> 'refused'
),
fitting AS (
  SELECT DISTINCT s.subject
  FROM silent s JOIN wanted w USING (first)
  WHERE (size(s.tokens) = size(w.tokens)
      OR size(s.tokens) > size(w.tokens) AND element_at(w.tokens, -1) = '>')
    AND forall(
      zip_with(w.tokens, slice(s.tokens, 1, size(w.tokens)), (want, have) -> want IN (have, '*', '>')),
      fits -> fits)
    AND coalesce(w.opened_ns <= s.last_ns, true) AND coalesce(w.closed_ns >= s.first_ns, true)
)
SELECT
  subject, messages, sessions,
  IF(by_server, 'nobody listened (503)', 'no subscriber in these captures') AS verdict
FROM published
  LEFT ANTI JOIN heard USING (subject)
  LEFT ANTI JOIN fitting USING (subject)
  LEFT JOIN refused USING (subject)
ORDER BY verdict DESC, messages DESC, subject
