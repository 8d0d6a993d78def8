-- Sessions that were closed after an error (-ERR), by what the server said last. The same host many
-- times is a misconfiguration, or somebody who tries passwords.
SELECT
  regexp_replace(originator, ':[0-9]+$', '')                AS host,
  responder                                                 AS server,
  coalesce(client_name, remote_name)                        AS name,
  user,
  element_at(errors, -1)                                    AS error,
  count(*)                                                  AS sessions
FROM sessions
WHERE end = 'error'
GROUP BY 1, 2, 3, 4, 5
ORDER BY sessions DESC, host, server, name, user, error
