"""`natsync streaming`: publishes to and subscribes to channels of a NATS Streaming server."""

from __future__ import annotations

import os

from click import Choice

from ..errors import NextMsgTimeoutError, OptionError
from ..message import Msg
from ..streaming import StartPosition, StreamingConnection, Subscription, connect
from ..streaming.session import check_channel
from .command import DONE, FAILED, Group, Run
from .options import Function, argument, count_option, option
from .output import Shown, show
from .pubsub import read_data
from .values import age, checked, count, seconds, sequence, time

__all__ = ["streaming"]

CLUSTER = "test-cluster"
_STARTS = {
    "new": StartPosition.NEW_ONLY,
    "last": StartPosition.LAST_RECEIVED,
    "first": StartPosition.FIRST,
}

streaming = Group("streaming")


def _checked(text: str) -> str:
    check_channel(text)
    return text


def _to_a_channel(function: Function) -> Function:
    for decorate in (
        option(
            "--client ID",
            "The client's id, which only one client may use at a time.",
            name="client_id",
        ),
        option(
            "--cluster ID",
            f"The id of the cluster ({CLUSTER}).",
            name="cluster_id",
            default=CLUSTER,
        ),
        argument("channel", type=checked(_checked)),
    ):
        function = decorate(function)
    return function


@streaming.command("pub")
@_to_a_channel
@argument("data", "The payload; - reads standard input.", default="")
@count_option("Publish it N times (1).", 1)
def pub(
    run: Run, channel: str, cluster_id: str, client_id: str | None, data: str, count: int
) -> None:
    """Publish a message and wait until the server has stored it.

    Many are in flight at once.
    """
    payload = read_data(data)
    with _connected(run, cluster_id, client_id) as sc:
        sent = [sc.publish_async(channel, payload) for _ in range(count)]
        for each in sent:
            each.result()
    run.done(channel=channel, published=count, data_bytes=len(payload))


@streaming.command("sub", timeout=None, raw=True)
@_to_a_channel
@option("--queue GROUP", "Share the messages among the members of this group.", default="")
@option(
    "--durable NAME", "Continue where this durable subscription ended; needs --client.", default=""
)
@option("--unsubscribe", "At the end, let the server forget the durable subscription.")
@option("--start", "Where to begin (new).", Choice([*_STARTS]), one_of="start")
@option("--start-sequence N", "Begin with this sequence.", sequence, one_of="start", common=False)
@option("--start-time TIME", "Begin at this time (ISO 8601).", time, one_of="start", common=False)
@option(
    "--since SECONDS",
    "Begin with what was stored in the last SECONDS.",
    age,
    name="start_time_delta",
    one_of="start",
)
@option(
    "--max-in-flight N",
    "Messages without an ack that the server may send (1024).",
    count,
    default=1024,
    common=False,
)
@option(
    "--ack-wait SECONDS",
    "When the server sends a message without an ack again (30).",
    seconds,
    default=30.0,
    common=False,
)
@count_option("Exit after N messages.")
def sub(
    run: Run,
    channel: str,
    cluster_id: str,
    client_id: str | None,
    count: int | None,
    durable: str,
    queue: str,
    start: str | None,
    unsubscribe: bool,
    **options: object,
) -> int:
    """Print messages as they arrive.

    Each is acknowledged after it is printed.
    """
    if durable and client_id is None and not queue:
        raise OptionError("client_id", "is needed: a durable belongs to a client")
    with _connected(run, cluster_id, client_id) as sc:
        subscription = sc.subscribe(
            channel,
            queue=queue,
            durable=durable,
            start=_STARTS.get(start or ""),
            manual_acks=True,
            **options,  # type: ignore[arg-type]  # as they are declared
        )
        status = _listen(run, subscription, count)
        if unsubscribe:
            subscription.unsubscribe()
    return status


def _listen(run: Run, subscription: Subscription, count: int | None) -> int:
    printed = 0
    while count is None or printed < count:
        try:
            msg = subscription.next_msg(run.timeout)
        except NextMsgTimeoutError as error:
            if count is None:
                return DONE
            run.reporter.error(error)
            return FAILED
        printed += 1
        place: dict[str, Shown] = {"sequence": msg.sequence, "time": msg.time.isoformat()}
        if msg.redelivered:
            place["redelivery_count"] = msg.redelivery_count
        core = Msg(msg.channel, msg.data, reply=msg.reply)
        show(core, run.form, not subscription.pending_msgs, place)
        msg.ack()
    return DONE


def _connected(run: Run, cluster_id: str, client_id: str | None) -> StreamingConnection:
    client_id = f"natsync-{os.getpid()}" if client_id is None else client_id
    return connect(cluster_id, client_id, nc=run.nc)
