-- The anomalies that concern most bytes.
SELECT session, ts_ns, packet, sender, anomaly, "offset", bytes, text
FROM anomalies
ORDER BY bytes DESC, ts_ns, session DESC, packet, anomaly
LIMIT $limit
