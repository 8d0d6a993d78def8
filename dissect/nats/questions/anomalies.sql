-- How often each anomaly occurs, and the bytes that it concerns.
SELECT anomaly AS name, count(*) AS count, sum(bytes) AS bytes
FROM anomalies
GROUP BY anomaly
ORDER BY 2 DESC, 1
