-- How often each name occurs, for every small table of the report. Rare names are counted together.
WITH counted AS (
    SELECT 'kind' AS what, kind AS name, count(*) AS count FROM sessions GROUP BY 2
    UNION ALL
    SELECT 'transport', concat_ws('+', transport, nullif(compression, '')), count(*)
    FROM sessions GROUP BY 2
    UNION ALL
    SELECT 'end', "end", count(*) FROM sessions GROUP BY 2
    UNION ALL
    SELECT 'auth', coalesce(nullif(auth, ''), 'not seen'), count(*)
    FROM sessions WHERE kind = 'client' GROUP BY 2
    UNION ALL
    SELECT 'version', concat_ws(' ', nullif(client_lang, ''), nullif(client_version, '')), count(*)
    FROM sessions WHERE kind = 'client' GROUP BY 2
    UNION ALL
    SELECT 'error', error, count(*)
    FROM (SELECT unnest(errors) AS error FROM sessions) AS said GROUP BY 2
    UNION ALL
    SELECT 'protocol', protocol, count(*) FROM flows GROUP BY 2
    UNION ALL
    SELECT 'outcome', outcome, count(*) FROM requests GROUP BY 2
    UNION ALL
    SELECT 'pull', coalesce(nullif(p.end, ''), 'open'), count(*) FROM pulls AS p GROUP BY 2
    UNION ALL
    SELECT 'call', api, count(*) FROM api GROUP BY 2
    UNION ALL
    SELECT 'refusal', call || ': ' || code || ' ' || error || err_code, count(*)
    FROM (
        SELECT api AS call, code, coalesce(error, '') AS error,
            CASE WHEN err_code <> 0 THEN ' (' || err_code || ')' ELSE '' END AS err_code
        FROM api
        UNION ALL
        SELECT 'publish', code, coalesce(error, ''),
            CASE WHEN err_code <> 0 THEN ' (' || err_code || ')' ELSE '' END
        FROM publishes
    ) AS answers
    WHERE $is_error GROUP BY 2
    UNION ALL
    SELECT 'streaming', op, count(*) FROM streaming GROUP BY 2
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY what ORDER BY count DESC, name) AS place FROM counted
)
SELECT what, CASE WHEN place <= $limit THEN name ELSE '(others)' END AS name, sum(count) AS count
FROM ranked
GROUP BY 1, 2
ORDER BY 1, 3 DESC, 2
