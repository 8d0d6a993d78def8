-- The heaviest subjects; each of the others becomes the wildcard above it: `a.b` and `a.b.>` become `a.>`.
SELECT
    CASE WHEN place <= $kept THEN subject WHEN above = '' THEN '>' ELSE above || '.>' END AS subject,
    sum(published) AS published,
    sum(delivered) AS delivered,
    sum(passed) AS passed,
    sum(bytes) AS bytes
FROM (
    SELECT
        subject, published, delivered, passed, bytes,
        row_number() OVER (
            ORDER BY bytes + 16 * (published + delivered + passed) DESC, subject
        ) AS place,
        -- At most 16 tokens, so that a subject of a thousand tokens soon becomes `>`.
        regexp_extract(
            regexp_extract(regexp_replace(subject, '[.]>$$', ''), '^(.*)[.][^.]*$$', 1),
            '^[^.]*([.][^.]*){0,15}', 0
        ) AS above
    FROM ($subjects) AS narrower
) AS ranked
GROUP BY 1
