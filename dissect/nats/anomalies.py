"""The closed list of oddities: every way in which traffic or a capture can be strange, by one name.

A strange capture is data: stages report these, they never raise. The value of each member is the name
users see in the column `anomaly`, and the name that filters ask for; it does not change.

What is only counted has no name here: retransmissions and packets out of order are how TCP works.
Checksums are not looked at: a machine that records its own traffic sees them before the network card
fills them in.
"""

from __future__ import annotations

from enum import Enum


class Anomaly(Enum):
    """One kind of oddity."""

    # Reassembly
    LOST = "lost"
    """Bytes that were sent, but whose packets are not in the capture."""
    TRUNCATED = "truncated"
    """Bytes that the capture cut off: the snap length was shorter than the packet."""
    OVERLAP_DIFFERS = "overlap_differs"
    """A second copy of bytes says something else than the first; the first one counts."""
    DATA_AFTER_FIN = "data_after_fin"
    """Bytes behind the place where their sender had said that it was finished; left out."""
    DATA_BEFORE_START = "data_before_start"
    """Bytes from before the first byte of a stream that was joined midstream; too late to be used."""
    LIMIT = "limit"
    """A hole that was given up without proof of its loss: too much waited behind it (`--max-held-bytes`,
    `--max-stream-bytes`). Its bytes are counted as lost as well."""
    EVICTED = "evicted"
    """A connection that was given up while it was open, because there were too many (`--max-flows`): what
    comes later is told as another one."""
    RST_OUT_OF_WINDOW = "rst_out_of_window"
    """A RST whose number is far from where its sender was: not believed by who receives it, nor here."""
    SEQUENCE_JUMP = "sequence_jump"
    """A packet whose sequence and acknowledgement numbers are both more than 64 MiB from its sender's last
    ones. Without bytes: from here on it is another connection between the same ports, with a session
    of its own. With bytes: a single packet of another connection, which was left out."""

    # Between TCP and NATS
    DECOMPRESSION_ERROR = "decompression_error"
    """Compressed bytes (S2, permessage-deflate) that cannot be decompressed, whose checksum is wrong, or that
    expand too much; the text says which. They are skipped."""

    WEBSOCKET_ERROR = "websocket_error"
    """Bytes at the place of a WebSocket frame that are none; the text says why."""
    WEBSOCKET_CLOSE = "websocket_close"
    """A WebSocket that was closed with a status other than 1000 and 1001 (the end of client or server); the
    text is the status and the reason."""

    TLS_ALERT = "tls_alert"
    """A TLS alert other than the end of the connection; the text names it."""
    TLS_ERROR = "tls_error"
    """A TLS record that cannot be decrypted although the key log has the secrets of its connection."""

    # NATS
    PROTOCOL_ERROR = "protocol_error"
    """Bytes at the place of a frame that are none; the text says why."""
    SKIPPED = "skipped"
    """Bytes that were jumped over to find the next place that is surely the start of a frame."""
    UNFINISHED = "unfinished"
    """A frame that had begun when its stream ended."""
    BAD_HEADERS = "bad_headers"
    """A header block that is none."""
    BAD_JSON = "bad_json"
    """JSON that cannot be read: of an INFO or CONNECT, or, in the tables above the frames, of a message."""
    MAX_PAYLOAD_EXCEEDED = "max_payload_exceeded"
    """A client's message that is larger than the server's INFO allows."""
    INVALID_SUBJECT = "invalid_subject"
    """A client subscribed to what is no subject, or published to a wildcard or an empty token."""
    SID_IN_USE = "sid_in_use"
    """A SUB whose sid already has a subscription; servers ignore it."""
    UNASKED_OK = "unasked_ok"
    """More +OK than operations that a verbose client waits for, in a session without holes."""
    UNASKED_PONG = "unasked_pong"
    """More PONGs than PINGs, in a session without holes."""
    FORGOTTEN = "forgotten"
    """Subscriptions that were given up because there were too many to remember; the text says how many.
    Messages for them count as for one whose SUB was not captured. In the tables above the frames: a row that
    was given up for the same reason, before its answer or ack came."""

    # Above NATS; marks of rows
    BAD_ACK = "bad_ack"
    """An ack of a JetStream message that is none of those that servers know."""
    BAD_PROTOBUF = "bad_protobuf"
    """A message to a subject of NATS Streaming that is none of its messages."""
    DELIVERY_NOT_SEEN = "delivery_not_seen"
    """An ack whose delivery is not in this session of the capture; its row is made from the ack."""
    JETSTREAM_TROUBLE = "jetstream_trouble"
    """An advisory that reports trouble: a message delivered too often or terminated, a quorum lost, an atomic
    batch abandoned, storage full, API calls dropped."""
