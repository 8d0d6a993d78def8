-- Connections on which a receiver stopped its sender with a zero window, the longest first.
SELECT
    f.session, f.originator, f.responder, f.protocol,
    f.zero_window_ns_originator, f.zero_window_ns_responder, f.end,
    count(*) OVER () AS seen
FROM flows AS f
WHERE f.zero_window_ns_originator > 0 OR f.zero_window_ns_responder > 0
ORDER BY
    greatest(f.zero_window_ns_originator, f.zero_window_ns_responder) DESC, f.first_ns, f.session
LIMIT $limit
