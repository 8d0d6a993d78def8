"""The closed list of anomalies: every way in which traffic or a capture can be strange, by one name.

A strange capture is data: stages report anomalies and never raise. The value of each member is its name in
the column `anomaly` and in filters; it does not change.

Retransmissions and packets out of order are only counted, because they are how TCP works.
"""

from __future__ import annotations

from enum import Enum


class Anomaly(Enum):
    """One kind of anomaly."""

    # Reassembly
    LOST = "lost"
    """Bytes that were sent, but whose packets are not in the capture."""
    TRUNCATED = "truncated"
    """Bytes that the capture cut off: the snap length was shorter than the packet."""
    OVERLAP_DIFFERS = "overlap_differs"
    """A second copy of bytes that differs from the first copy. The first one is used, unless it was damaged
    on the wire: its TCP checksum is wrong although those of its side are right."""
    BAD_CHECKSUM = "bad_checksum"
    """A segment whose TCP checksum is wrong although those before were right, and of whose bytes no other
    copy came: they are used. From there on, checksums of this side are not checked. Without bytes: the
    sequence number is damaged, too, and the segment was left out."""
    DATA_AFTER_FIN = "data_after_fin"
    """Bytes after the FIN of their sender, which are left out."""
    DATA_BEFORE_START = "data_before_start"
    """Bytes before the first byte of a stream that was joined midstream; they came too late to be
    used."""
    ONE_DIRECTION = "one_direction"
    """A connection of which no packet of this side is in the capture, as with a tap that sees one direction
    of the cable. Nobody knows how many bytes are missing: they are not counted as lost."""
    LIMIT = "limit"
    """A gap that was given up without proof that its bytes are lost, because too many bytes waited after
    it (`--max-held-bytes`, `--max-stream-bytes`). Its bytes count as lost, too."""
    EVICTED = "evicted"
    """An open connection that was dropped because there were too many (`--max-flows`); its later packets
    form another connection."""
    RST_OUT_OF_WINDOW = "rst_out_of_window"
    """A RST whose sequence number is far from its sender's last one: the receiver ignores it, and so does
    the dissector."""
    MPTCP_ELSEWHERE = "mptcp_elsewhere"
    """This is a subflow of a Multipath TCP connection, and other bytes of the connection travel on subflows
    to which it could not be joined: frames may be incomplete although no byte of this flow is missing. Of too
    many subflows whose beginning was not captured (32,768 directions), it is not known whether they do."""
    CLOCK_BACK = "clock_back"
    """The times of packets go back here: the clock of the capture was set. Latencies that span this place are
    absent. Each direction has this anomaly."""
    SEQUENCE_JUMP = "sequence_jump"
    """A packet whose sequence and acknowledgement numbers are both more than 64 MiB from its sender's
    last ones. Without bytes: another connection between the same ports begins here, with a session of its
    own. With bytes: a single packet of another connection, which was left out."""

    # Between TCP and NATS
    DECOMPRESSION_ERROR = "decompression_error"
    """Compressed bytes (S2, permessage-deflate) that cannot be decompressed, have a wrong checksum, or
    expand too much; the text says which. They are skipped."""

    WEBSOCKET_ERROR = "websocket_error"
    """Bytes that are not a WebSocket frame, where one should begin; the text has the reason."""
    WEBSOCKET_CLOSE = "websocket_close"
    """A WebSocket that was closed with a status other than 1000 (normal) and 1001 (going away); the text
    is the status and the reason."""

    WEBSOCKET_REFUSED = "websocket_refused"
    """An HTTP response that refuses to begin a WebSocket: a redirect, an error, plain HTTP on a port with
    TLS. The text is its status and the beginning of its body. Connections without a session may have it,
    too."""

    PROXY_REFUSED = "proxy_refused"
    """A proxy that refuses to open a connection; the text is the target and the status. Connections without a
    session may have it, too."""

    TLS_ALERT = "tls_alert"
    """A TLS alert that does not just end the connection; the text names it. Like the other anomalies of
    TLS, connections without a session may have it, too, unless the client offers only protocols (ALPN)
    that never carry NATS."""
    TLS_CERTIFICATE = "tls_certificate"
    """A certificate that had expired at the time of the handshake, or was not valid yet."""
    TLS_OLD_VERSION = "tls_old_version"
    """A version of TLS before 1.2, or SSL."""
    TLS_EARLY_DATA = "tls_early_data"
    """Data that the client sent before the handshake (0-RTT). It is not decrypted, and a third party may
    have replayed it."""
    TLS_ERROR = "tls_error"
    """A TLS record that cannot be decrypted although the key log has the secrets of its connection, or the
    first of several in a row; or a connection whose secrets are not found, because its handshake is not in
    the capture. The text says which."""

    # NATS
    PROTOCOL_ERROR = "protocol_error"
    """Bytes that are not a NATS frame, where one should begin; the text has the reason."""
    SKIPPED = "skipped"
    """Bytes that were skipped up to the next proven beginning of a frame."""
    UNFINISHED = "unfinished"
    """A frame that was incomplete when its stream ended."""
    BAD_HEADERS = "bad_headers"
    """An invalid header block."""
    BAD_JSON = "bad_json"
    """Invalid JSON in an INFO or CONNECT or, in the tables above the frames, in a message."""
    MAX_PAYLOAD_EXCEEDED = "max_payload_exceeded"
    """A client's message that is larger than the server's INFO allows."""
    INVALID_SUBJECT = "invalid_subject"
    """A subscription to an invalid subject, or a publication to a wildcard or an empty token."""
    SID_IN_USE = "sid_in_use"
    """A SUB whose sid already has a subscription; servers ignore it."""
    UNASKED_OK = "unasked_ok"
    """More +OKs than operations that a verbose client waits for, in a session without gaps of which both
    directions were captured."""
    UNASKED_PONG = "unasked_pong"
    """More PONGs than PINGs, in a session without gaps of which both directions were captured."""
    FORGOTTEN = "forgotten"
    """Subscriptions that the dissector dropped because there were too many; the text has their number.
    Later messages for them count as if the SUB had not been captured. In the tables above the frames: a
    row that was dropped for the same reason, before its answer or ack came."""

    # Above NATS: marks in rows of other tables; only the last one is also in the table `anomalies`
    BAD_ACK = "bad_ack"
    """An ack of a JetStream message whose content no server understands."""
    BAD_PROTOBUF = "bad_protobuf"
    """A message on a subject of NATS Streaming that does not have the format of its messages."""
    DELIVERY_NOT_SEEN = "delivery_not_seen"
    """An ack whose delivery is not in this session of the capture. Its row is made from the ack."""
    JETSTREAM_TROUBLE = "jetstream_trouble"
    """An advisory that reports trouble: a message delivered as often as allowed or terminated, a quorum
    lost, an atomic batch abandoned, storage full, API calls dropped. The text says which trouble, and
    whose."""
