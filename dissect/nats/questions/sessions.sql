-- Sessions: those with the worst trouble first, then those with most bytes.
SELECT
    session, kind, transport, compression, first_ns, originator, remote_name, responder,
    server_name, server_id, client_name, client_lang, client_version, user, auth,
    messages_originator, messages_responder, bytes_originator, bytes_responder,
    missing_bytes, skipped_bytes, opaque_bytes, "end", ended_by, errors, slow_consumer,
    no_responders, unanswered_pings, lame_duck_ns, start,
    $who AS who,
    $server AS server,
    CASE WHEN slow_consumer <> '' THEN 8 ELSE 0 END
    + CASE WHEN $errors > 0 OR "end" = 'error' THEN 4 ELSE 0 END
    + CASE WHEN no_responders > 0 OR unanswered_pings > 0 THEN 2 ELSE 0 END
    + CASE
        WHEN missing_bytes + skipped_bytes - coalesce(opaque_bytes, 0) <> 0
            OR lame_duck_ns IS NOT NULL THEN 1
        ELSE 0
    END AS trouble,
    count(*) OVER () AS seen
FROM sessions
ORDER BY trouble DESC, bytes_originator + bytes_responder DESC, first_ns, session
LIMIT $limit
