-- Operations of key-value buckets and object stores. If there are many, those of the rare ones are summed.
WITH named AS (
    SELECT
        'key-value bucket' AS kind, bucket, coalesce(account, '') AS account,
        CASE WHEN error <> '' THEN op || ', failed' ELSE op END AS op, count(*) AS count
    FROM kv GROUP BY 1, 2, 3, 4
    UNION ALL
    SELECT
        'object store', bucket, coalesce(account, ''),
        CASE WHEN error <> '' THEN op || ', failed' ELSE op END, count(*)
    FROM objects GROUP BY 1, 2, 3, 4
),
ranked AS (
    SELECT *, row_number() OVER (ORDER BY count DESC, kind, bucket, account, op) > $limit AS is_rare
    FROM named
)
SELECT
    kind,
    CASE WHEN is_rare THEN '(others)' ELSE bucket END AS bucket,
    CASE WHEN is_rare THEN '' ELSE account END AS account,
    op,
    sum(count) AS count
FROM ranked
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
