"""Copies a channel of NATS Streaming into a stream: `stan_to_jetstream.py CLUSTER CHANNEL STREAM`.

Each message keeps its sequence and time in headers. After an interruption, run it again: it continues after
the last message in the stream. At the end it compares both sides by count and digest. The servers are
STAN_URL and NATS_URL in the environment.
"""

import hashlib
import os
import sys
from collections.abc import Iterator

import natsync
from natsync import streaming
from natsync.jetstream import ConsumerConfig, JetStream, MessageNotFoundError, StreamConfig
from natsync.streaming import StartPosition, StreamingConnection

STAN_URL = os.environ.get("STAN_URL", "nats://127.0.0.1:4222")
NATS_URL = os.environ.get("NATS_URL", "nats://127.0.0.1:4223")
if sys.argv[1:] in (["-h"], ["--help"]):
    print(__doc__)
    sys.exit()
if len(sys.argv) != 4:
    print("usage: stan_to_jetstream.py CLUSTER CHANNEL STREAM", file=sys.stderr)
    sys.exit(2)
CLUSTER, CHANNEL, STREAM = sys.argv[1:]
Row = tuple[int, int, bytes]  # sequence, ns since 1970, data


def channel_rows(sc: StreamingConnection, first: int) -> Iterator[Row]:
    """The messages of the channel from sequence `first` to the last one that it has now."""
    try:
        last = sc.subscribe(CHANNEL, start=StartPosition.LAST_RECEIVED).next_msg(1).sequence
    except natsync.NextMsgTimeoutError:
        return  # an empty channel
    with sc.subscribe(CHANNEL, start_sequence=first) as sub:
        while first <= last:
            msg = sub.next_msg(30)
            if msg.sequence >= first:  # else it is one that came again
                yield msg.sequence, msg.timestamp_ns, msg.data
                first = msg.sequence + 1


def stream_rows(js: JetStream) -> Iterator[Row]:
    """The messages of the stream."""
    reader = js.ordered_consumer(STREAM, ConsumerConfig(filter_subject=CHANNEL))
    for _ in range(js.stream(STREAM).cached_info.state.messages):
        msg = reader.next(30)
        yield int(msg.headers["Stan-Sequence"]), int(msg.headers["Stan-Timestamp"]), msg.data


def copy(sc: StreamingConnection, js: JetStream) -> None:
    stream = js.create_or_update_stream(StreamConfig(STREAM, subjects=[CHANNEL]))
    try:
        stored = stream.get_last_msg(CHANNEL)
        place, done = stored.seq, int(stored.headers["Stan-Sequence"])
    except MessageNotFoundError:
        place = done = 0
    for sequence, timestamp, data in channel_rows(sc, done + 1):
        headers = {"Stan-Sequence": str(sequence), "Stan-Timestamp": str(timestamp)}
        # Refused where another one copies at the same time; the id makes it safe to send again.
        place = js.publish(
            CHANNEL,
            data,
            headers=headers,
            msg_id=f"{CHANNEL}:{sequence}",
            expected_last_subject_seq=place,
        ).seq


def digest(rows: Iterator[Row]) -> tuple[int, str]:
    count, found = 0, hashlib.sha256()
    for sequence, timestamp, data in rows:
        found.update(b"%d %d %d:" % (sequence, timestamp, len(data)) + data)
        count += 1
    return count, found.hexdigest()


with natsync.connect(NATS_URL) as nc:
    with streaming.connect(CLUSTER, f"copy-{os.getpid()}", servers=STAN_URL) as sc:
        copy(sc, nc.jetstream())
        theirs, ours = digest(channel_rows(sc, 1)), digest(stream_rows(nc.jetstream()))
print(f"{ours[0]} messages in {STREAM}, {theirs[0]} in {CHANNEL}:", ours[1][:12], theirs[1][:12])
sys.exit(ours != theirs)
