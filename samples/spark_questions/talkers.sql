-- Who moves the most bytes: TCP payload, so TLS and what could not be decoded count as well.
SELECT
  regexp_replace(s.originator, ':[0-9]+$', '')              AS host,
  coalesce(s.client_name, s.remote_name)                    AS name,
  s.kind,
  count(*)                                                  AS connections,
  sum(s.messages_originator)                                AS sent_messages,
  sum(s.messages_responder)                                 AS received_messages,
  sum(f.bytes_originator)                                   AS sent_bytes,
  sum(f.bytes_responder)                                    AS received_bytes
FROM sessions s JOIN flows f USING (session)
GROUP BY 1, 2, 3
ORDER BY sent_bytes + received_bytes DESC, host, name, kind
LIMIT 10
