"""JetStream advisories that report trouble. The subject alone shows which trouble it is (nats-server:
server/jetstream_events.go)."""

from __future__ import annotations

ADVISORY = b"$JS.EVENT.ADVISORY."
_TROUBLES = {
    b"CONSUMER.MAX_DELIVERIES": "a message was delivered as often as allowed",
    b"CONSUMER.MSG_TERMINATED": "a message was terminated",
    b"CONSUMER.QUORUM_LOST": "a consumer lost its quorum",
    b"STREAM.QUORUM_LOST": "a stream lost its quorum",
    b"STREAM.BATCH_ABANDONED": "an atomic batch was abandoned",
    b"SERVER.OUT_OF_STORAGE": "a server has no storage left",
    b"API.LIMIT_REACHED": "calls of the API were dropped",
}


def trouble(subject: bytes) -> str:
    """The trouble that an advisory on this subject reports, with the stream and consumer that it names; empty
    if it reports none."""
    if not subject.startswith(ADVISORY):
        return ""
    tokens = subject[len(ADVISORY) :].split(b".")
    text = _TROUBLES.get(b".".join(tokens[:2]), "")
    names = b"/".join(tokens[2:4]).decode("utf-8", "backslashreplace")
    return f"{text}: {names}" if text and names else text
