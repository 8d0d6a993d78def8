"""The examples that the help of each command shows, with a capture named capture.pcap."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "anomalies": ("nats-dissect anomalies capture.pcap",),
    "api": ('nats-dissect api --where "error IS NOT NULL" capture.pcap',),
    "archive": ("nats-dissect archive /var/captures --out tables --keep 30",),
    "audit": ("nats-dissect audit capture.pcap", "nats-dissect audit --explain password-in-clear"),
    "consumers": ("nats-dissect consumers --sort num_pending:desc capture.pcap",),
    "deliveries": ('nats-dissect deliveries --where "delivered_count > 1" capture.pcap',),
    "flows": ("nats-dissect flows --where \"protocol <> 'nats'\" capture.pcap",),
    "follow": ("nats-dissect follow e6a840a4 capture.pcap",),
    "frames": (
        "nats-dissect frames --payload text --limit 20 capture.pcap",
        "nats-dissect frames --where \"subject LIKE 'orders.%'\" capture.pcap",
    ),
    "info": ("nats-dissect info capture.pcap",),
    "kv": ("nats-dissect kv --columns time,bucket,key,op,revision capture.pcap",),
    "nats-dissect": ("nats-dissect report capture.pcap -o report.html",),
    "objects": ('nats-dissect objects --where "NOT complete" capture.pcap',),
    "paths": ("nats-dissect paths --message ad29d842:6 capture.pcap",),
    "publishes": ('nats-dissect publishes --where "error IS NOT NULL" capture.pcap',),
    "pulls": ("nats-dissect pulls --sort delivered:desc capture.pcap",),
    "report": ("nats-dissect report capture.pcap -o report.html",),
    "requests": (
        "nats-dissect requests --where \"outcome <> 'ok'\" capture.pcap",
        "nats-dissect requests --sort latency_ns:desc --limit 10 capture.pcap",
    ),
    "servers": (
        "nats-dissect servers --graph capture.pcap",
        "nats-dissect servers --format dot capture.pcap | dot -Tsvg",
    ),
    "services": ("nats-dissect services --sort errors:desc capture.pcap",),
    "sessions": (
        'nats-dissect sessions --where "errors IS NOT NULL" capture.pcap',
        "nats-dissect sessions --session e6a840a4 capture.pcap",
    ),
    "slice": ("nats-dissect slice -o one.pcap e6a840a4 capture.pcap",),
    "spark": ("nats-dissect spark capture.pcap --out tables --tables sessions,requests",),
    "split": ("nats-dissect split -o pieces capture.pcap",),
    "sql": (
        'nats-dissect sql "SELECT kind, count(*) FROM sessions GROUP BY 1" capture.pcap',
        'nats-dissect sql "SELECT * FROM requests" --tables tables',
    ),
    "streaming": ("nats-dissect streaming capture.pcap",),
    "streams": ("nats-dissect streams --sort messages:desc capture.pcap",),
    "subscriptions": ("nats-dissect subscriptions --sort delivered:desc capture.pcap",),
    "top": ("nats-dissect top -i eth0", "tcpdump -U -w - | nats-dissect top -"),
}
