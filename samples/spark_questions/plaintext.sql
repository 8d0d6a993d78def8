-- Whose credentials anybody on the way could read and use again. In the tables they are ***, which
-- tells that they were there. An nkey, and a JWT with a signature, is of no use to others; a bearer
-- JWT is. Not known is what was in a CONNECT that is not in `frames`: of midstream, WebSocket and
-- S2 sessions.
WITH connects AS (
  SELECT
    session,
    CASE
      WHEN get_json_object(json, '$.pass') <> '' THEN 'password'
      WHEN get_json_object(json, '$.auth_token') <> '' THEN 'token'
      WHEN get_json_object(json, '$.jwt') <> '' AND coalesce(get_json_object(json, '$.sig'), '') = ''
        THEN 'bearer JWT'
    END AS secret
  FROM frames
  WHERE op = 'CONNECT'
)
SELECT
  s.responder                                               AS server,
  s.kind,
  c.secret,
  s.user,
  coalesce(s.client_name, s.remote_name)                    AS name,
  count(DISTINCT session)                                   AS sessions
FROM connects c JOIN sessions s USING (session)
WHERE c.secret IS NOT NULL AND s.transport NOT LIKE '%tls'
GROUP BY 1, 2, 3, 4, 5
ORDER BY sessions DESC, server, kind, secret, user, name
