"""A capture of NATS Streaming: its server beside a nats-server, and stan.go, which prints what it does.

Recording it needs both programs: `make stan`.
"""

from __future__ import annotations

from tests.support.stage import Stage
from tests.support.streaming_servers import CLUSTER, StreamingServer, stan_go

Log = list[dict[str, object]]


def streaming(stage: Stage) -> None:
    """Messages are published, read by a durable, by a queue group and by one that does not acknowledge."""
    server = stage.server()
    log: Log = []
    name = f"streaming-{server.version}.pcap"
    with StreamingServer(store="MEMORY", nats_url=server.url) as stan:
        with stage.capturing(name):
            write(stan, log, "writer", "orders", 4)
            read(stan, log, "books", 4, "start=first", "durable=ledger", "ack=no", "end=close")
            read(stan, log, "books", 4, "durable=ledger", "end=unsubscribe")
            read(stan, log, "shop", 4, "start=first", "queue=counters", "end=unsubscribe")
            read(stan, log, "archive", 2, "sequence=3", "end=conn")
            read(stan, log, "slow", 2, "start=last", "ack=no", "ackwait=1", "end=conn")
    stage.truth[name]["did"] = {"streaming": log}


def did(op: str, client: str, channel: str | None = None, **more: object) -> dict[str, object]:
    """The log's line of an operation."""
    row: dict[str, object] = {"op": op, "cluster_id": CLUSTER, "client_id": client}
    row |= {"channel": channel, "sequence": None, "durable": None, "queue": None}
    return {**row, "redelivered": None, "error": None, **more}


def write(stan: StreamingServer, log: Log, client: str, channel: str, count: int) -> None:
    """Publishes, and waits for each ack."""
    (line,) = stan_go(stan, client, "pub", channel, count, 20)
    assert line.startswith(f"published {count} ")
    log.append(did("connect", client))
    for _ in range(count):
        log += [did(op, client, channel) for op in ("publish", "ack_published")]
    log.append(did("close", client))


def read(stan: StreamingServer, log: Log, client: str, count: int, *options: str) -> None:
    """Subscribes to `orders` and reads; the log has what stan.go printed."""
    settings = dict(option.split("=", 1) for option in options)
    lines = stan_go(stan, client, "sub", "orders", count, *options)
    log.append(did("connect", client))
    named = {"durable": settings.get("durable"), "queue": settings.get("queue")}
    log.append(did("subscribe", client, "orders", **named))
    for line in lines:
        if line[:1].isdigit():
            sequence, _, again, _, _ = line.split(" ", 4)
            row = {**named, "sequence": int(sequence)}
            redelivered = True if again == "true" else None
            log.append(did("deliver", client, "orders", **row, redelivered=redelivered))
            if settings.get("ack") != "no":
                log.append(did("ack", client, "orders", **row))
    ends = {"close": "close_subscription", "unsubscribe": "unsubscribe"}
    if settings["end"] in ends:
        log.append(did(ends[settings["end"]], client, "orders", **named))
    log.append(did("close", client))


ALL = (streaming,)
