"""TLS: before the first NATS byte, or in place of CONNECT after the server's INFO, which is in the clear.

TLS is detected by the heads of its records (RFC 8446, 5.1; RFC 5246, 6.2.1). With a key log, its records are
decrypted; without one, its bytes are opaque, and a connection that begins with TLS shows no NATS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...schema.anomalies import Anomaly
from ...schema.records import Value
from ...secrets.key_log import KeyLogs
from ...types import Direction, Gap, Item, Oddity
from ..layer import Begins, Heads, Layer, LayerColumn, LayerOptions, Transform
from ..plaintext import Plaintext
from .handshake import (
    CERTIFICATE,
    CLIENT_HELLO,
    END_OF_EARLY_DATA,
    FINISHED,
    KEY_UPDATE,
    SERVER_HELLO,
    VERSION_12,
    Handshake,
)
from .keys import DirectionKeys

_RECORD = re.compile(rb"[\x14-\x17]\x03[\x00-\x04][\x00-\x48]", re.DOTALL)
_DATA_RECORD = re.compile(rb"\x17\x03\x03[\x00-\x48]", re.DOTALL)
_CHANGE_CIPHER_SPEC, _ALERT, _HANDSHAKE, _APPLICATION_DATA = range(20, 24)
_CONTENT_TYPES = frozenset(range(20, 24))
_HEAD_BYTES = 5
_MOST_RECORD_BYTES = 0x48FF  # the largest length that `_RECORD` matches
_ALERT_BYTES = 19  # of an encrypted alert of TLS 1.3: alert, content type, tag
_MOST_HANDSHAKE_BYTES = 1 << 18

# At most this many bytes wait for the other side's hello.
_MOST_WAITING_BYTES = 1 << 20

_CLOSE_NOTIFY = 0
_APPLICATION_HEAD = b"\x17\x03\x03"


class TlsTransform:
    """Decrypts one direction. A record that cannot be opened is skipped; after a gap, reading continues at
    the next record whose tag proves its number.

    If there can be no secrets, it reads the handshake as far as that is in the clear, and is then `opaque`.
    The pickled state has no secrets; another process finds them in the same key log.
    """

    done = False
    opaque = False

    def __init__(self, direction: Direction, handshake: Handshake, key_logs: KeyLogs) -> None:
        self.handshake = handshake
        self._of_client = direction is Direction.ORIGINATOR
        self._key_logs = key_logs
        self._keys = DirectionKeys(handshake, self._of_client, key_logs)
        self._plain = Plaintext()
        self.counts = self._plain.counts
        self._held = bytearray()
        self._wanted_bytes = 0  # size of the incomplete record at the beginning of `_held`
        self._gap_bytes = 0  # bytes of `_held` that were not captured; zeros are in their place
        self._whole_bytes = 0  # bytes of `_held` before the first of them
        self._messages = bytearray()  # incomplete handshake messages
        self._is_encrypted = False
        self._is_waiting = False  # for the other side's hello
        self._fails = False  # whether the last record failed: one anomaly reports all in a row
        # Bytes since the last record that was opened, if more than one record may be missing.
        self._lost_bytes = 0

    @property
    def facts(self) -> Mapping[str, Value]:
        """The facts that the handshake shows."""
        return self.handshake.facts

    def feed(self, item: Item) -> list[Item]:
        """Returns the application data in the records that `item` completes."""
        plain = self._plain
        if isinstance(item, Oddity):
            plain.pass_on(item)
            return plain.hand_on()
        if isinstance(item, Gap):
            self._take_gap(item)
        else:
            plain.take(item)
            if self._keys.has_opened and not self._gap_bytes and not self._lost_bytes:
                self._take_application_data(item.data)
                if not self._held:
                    return plain.hand_on()
            else:
                self._held += item.data
            if len(self._held) < self._wanted_bytes:
                return plain.hand_on()
        self._take_records()
        if self.opaque:
            self._skip(len(self._held))
        return plain.hand_on()

    def resume(self) -> list[Item]:
        """Returns plaintext that had to wait for the other side's hello."""
        if not self._is_waiting or not self.handshake.is_known:
            return []
        self._take_records()
        if self.opaque:
            self._skip(len(self._held))
        return self._plain.hand_on()

    def finish(self) -> list[Item]:
        """Counts the bytes of an incomplete record at the end as skipped."""
        if self._is_waiting and not self.handshake.is_known:
            self._note_missing_hello()
        self._skip(len(self._held) - self._gap_bytes, self._gap_bytes)
        return self._plain.finish()

    def _take_records(self) -> None:
        held = self._held
        self._wanted_bytes = 0
        while len(held) >= _HEAD_BYTES and not self.opaque:
            if self._lost_bytes and not self._key_logs.may_have_secrets:
                self.opaque = True
                return
            if self._lost_bytes and not self._find():
                return
            if not _RECORD.match(held):
                self._skip(1)
                self._lost_bytes = self._lost_bytes or 1
                continue
            size = _HEAD_BYTES + int.from_bytes(held[3:5], "big")
            if len(held) < size:
                return
            head, payload = bytes(held[:_HEAD_BYTES]), bytes(held[_HEAD_BYTES:size])
            if self._waits(head, payload):
                return
            if self._gap_bytes:
                self._drop_damaged(size)
            else:
                self._take_record(head, payload)

    def _take_application_data(self, data: bytes) -> None:
        """Takes whole records of application data, as long as each is opened as the next one. These are
        nearly all records of a connection. All others are held for `_take_record`."""
        held, keys, plain = self._held, self._keys, self._plain
        if held:
            held += data
            if len(held) < self._wanted_bytes:
                return
            data = bytes(held)
            held.clear()
        at, end, size, self._wanted_bytes = 0, 0, len(data), 0
        opener, sequence, overhead = keys.opener, keys.sequence, 0
        while opener and size - at > _HEAD_BYTES and data.startswith(_APPLICATION_HEAD, at):
            begun = at + _HEAD_BYTES
            end = begun + (data[at + 3] << 8 | data[at + 4])
            if end > size:
                self._wanted_bytes = end - at if end - begun <= _MOST_RECORD_BYTES else 0
                break
            opened = opener.open(sequence, data[at:begun], data[begun:end])
            if opened is None or opened[0] != _APPLICATION_DATA:
                break
            sequence += 1
            content = opened[1]
            overhead += end - at - len(content)
            plain.carry(content, len(content))
            at = end
        keys.sequence = sequence
        self._fails = self._fails and not at
        plain.count_overhead(overhead)
        if at < size:
            held += data[at:]

    def _waits(self, head: bytes, payload: bytes) -> bool:
        """Whether the record depends on a hello of the other side that may still come."""
        self._is_waiting = False
        known, keys = self.handshake, self._keys
        if known.is_known and not keys.joins or not self._key_logs.may_have_secrets:
            return False
        if not self._is_encrypted and head[0] != _APPLICATION_DATA:
            return False
        if keys.may_search and not self._gap_bytes and keys.search(head, payload):
            self._is_encrypted, self._lost_bytes = True, 0
            return False
        self._is_waiting = (
            not known.is_known and known.has_hello and len(self._held) <= _MOST_WAITING_BYTES
        )
        return self._is_waiting

    def _take_record(self, head: bytes, payload: bytes) -> None:
        kind = head[0]
        if kind == _CHANGE_CIPHER_SPEC:
            self._consume(len(head) + len(payload))
            if not self.handshake.is_13:  # the first handshake, or a renegotiation
                self._is_encrypted = True
                self._keys.begin(self._keys.epoch)
        elif self._is_encrypted or kind == _APPLICATION_DATA:
            self._is_encrypted = True
            if self._key_logs.may_have_secrets:
                self._take_encrypted(head, payload)
            else:
                self._take_hidden(kind, len(payload))
        else:
            self._consume(len(head) + len(payload))
            self._take_content(kind, payload)

    def _take_encrypted(self, head: bytes, payload: bytes) -> None:
        keys = self._keys
        opened = keys.open(head, payload)
        size = len(head) + len(payload)
        if opened is None:
            self._skip(size)
            if keys.epoch == "EARLY":
                self._note_early_data()
            elif keys.joins or not self.handshake.is_known:
                self._lost_bytes = size
                self._note_missing_hello()
            elif keys.has_secrets and not self._fails:
                self._fails = True
                self._note(Anomaly.TLS_ERROR, "a record cannot be decrypted")
            return
        self._fails = False
        kind, content = opened
        if kind == _APPLICATION_DATA:
            del self._held[:size]
            self.counts.overhead += size - len(content)
            self._plain.carry(content, len(content))
        else:
            self._consume(size)
            self._take_content(kind, content)

    def _take_content(self, kind: int, content: bytes) -> None:
        if kind == _ALERT and len(content) >= 2 and content[1] != _CLOSE_NOTIFY:
            self._note(Anomaly.TLS_ALERT, self.handshake.add_alert(content[1]))
        elif kind == _HANDSHAKE:
            self._messages += content
            while len(self._messages) >= 4:
                size = 4 + int.from_bytes(self._messages[1:4], "big")
                if len(self._messages) < size:
                    break
                self._take_message(self._messages[0], bytes(self._messages[4:size]))
                del self._messages[:size]
            if len(self._messages) > _MOST_HANDSHAKE_BYTES:
                self._messages.clear()

    def _take_hidden(self, kind: int, size: int) -> None:
        """Takes a record that stays encrypted. An alert in place of a Finished, or right after it, is
        recognized by its type or size."""
        handshake = self.handshake
        self._skip(_HEAD_BYTES + size)
        if self._of_client is not handshake.client_encrypts:
            if kind == _ALERT or handshake.is_13 and size == _ALERT_BYTES:
                self._note(Anomaly.TLS_ALERT, handshake.note_alert("encrypted alert"))
            elif self._of_client:
                self._note_early_data()
        handshake.client_encrypts = handshake.client_encrypts or self._of_client
        self.opaque = handshake.client_encrypts or not handshake.is_known

    def _note_early_data(self) -> None:
        if self.handshake.offers_early_data:
            self._note(Anomaly.TLS_EARLY_DATA, "")
        self.handshake.offers_early_data = False  # reported once

    def _note(self, anomaly: Anomaly, text: str) -> None:
        if not self.handshake.is_other:
            self._plain.note(anomaly, text)

    def _note_missing_hello(self) -> None:
        if not self.handshake.says_missing:
            self._note(Anomaly.TLS_ERROR, self._keys.reason)
        self.handshake.says_missing = True

    def _take_message(self, kind: int, body: bytes) -> None:
        handshake, plain = self.handshake, self._plain
        if kind == (CLIENT_HELLO if self._of_client else SERVER_HELLO):
            handshake.read(kind, body)
            if kind == SERVER_HELLO and 0 < handshake.version < VERSION_12:
                self._note(Anomaly.TLS_OLD_VERSION, handshake.version_text)
        elif kind == CERTIFICATE:
            certificate = handshake.read_certificate(self._of_client, body)
            flaw = certificate.flaw(plain.ts_ns) if certificate else ""
            if flaw:
                self._note(Anomaly.TLS_CERTIFICATE, flaw)
        elif not handshake.is_13:
            return
        elif kind == END_OF_EARLY_DATA and self._keys.epoch == "EARLY":
            self._keys.begin("HANDSHAKE")
        elif kind == FINISHED and self._keys.epoch == "HANDSHAKE":
            self._keys.begin("TRAFFIC")
        elif kind == KEY_UPDATE:
            self._keys.update()

    def _take_gap(self, gap: Gap) -> None:
        """A gap inside a record loses that record. A gap that hides a record's head loses everything up to a
        record whose tag proves its number."""
        self._plain.take(gap)
        held = self._held
        size = _HEAD_BYTES + int.from_bytes(held[3:5], "big") if len(held) >= _HEAD_BYTES else 0
        if not self._lost_bytes and len(held) + gap.length <= size and _RECORD.match(held):
            self._whole_bytes = self._whole_bytes if self._gap_bytes else len(held)
            self._gap_bytes += gap.length
            held += bytes(gap.length)
        else:
            self._gap_bytes, missing = 0, self._gap_bytes
            self._skip(len(held) - missing, missing)
            self._lost_bytes += gap.length + len(held)
            self._is_encrypted = self._is_encrypted or self.handshake.is_known
        self._plain.lose(gap.length)

    def _drop_damaged(self, size: int) -> None:
        """Skips the first record of `_held`, which has a gap. A handshake record is read first."""
        missing, self._gap_bytes = self._gap_bytes, 0
        if self._is_encrypted or self._held[0] == _APPLICATION_DATA:
            self._is_encrypted = True
            self._keys.sequence += 1
        elif self._held[0] == _HANDSHAKE:
            self._read_damaged(bytes(self._held[_HEAD_BYTES : self._whole_bytes]))
        self._skip(size - missing, missing)

    def _read_damaged(self, message: bytes) -> None:
        """Reads the beginning of a record: a cut ClientHello has its random, other messages must be whole."""
        if message[:1] == bytes([CLIENT_HELLO]) and self._of_client:
            self.handshake.read(CLIENT_HELLO, message[4:])
        elif len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            self._take_content(_HANDSHAKE, message)

    def _find(self) -> bool:
        """Skips to the next record that can be opened; returns False if more bytes are needed."""
        held = self._held
        while True:
            found = _DATA_RECORD.search(held)
            if not found:
                self._skip(max(len(held) - 3, 0))
                return False
            self._skip(found.start())
            size = _HEAD_BYTES + int.from_bytes(held[3:5], "big")
            if len(held) < _HEAD_BYTES or len(held) < size:
                return False
            head, payload = bytes(held[:_HEAD_BYTES]), bytes(held[_HEAD_BYTES:size])
            if self._waits(head, payload):
                return False
            if not self._lost_bytes or self._keys.resync(head, payload, self._lost_bytes):
                self._lost_bytes = 0
                return True
            self._skip(1)

    def _consume(self, size: int) -> None:
        del self._held[:size]
        self._plain.count_overhead(size)

    def _skip(self, size: int, missing: int = 0) -> None:
        """Drops bytes that are not read, and zeros that stand for missing ones."""
        del self._held[: size + missing]
        if self._key_logs.may_have_secrets:
            self._plain.skip(size)
        else:
            self._plain.hide(size)


def _begins(heads: Heads) -> Begins:
    seen = [head for head in (heads.originator, heads.responder) if head]
    if not heads.responder and not heads.final:  # the server's INFO may still come
        return Begins.NO
    return Begins.YES if seen and all(map(_RECORD.match, seen)) else Begins.NO


def _replaces(data: bytes, frames: int) -> bool:
    """Only the server's INFO may come before TLS. One byte of TLS is enough: no frame begins with it."""
    return frames <= 1 and data[0] in _CONTENT_TYPES and data[1:2] in (b"\x03", b"")


def _resumes(packet: bytes) -> bool:
    """Whether the packet begins with a record, and every record in it is followed by another."""
    at = 0
    while _RECORD.match(packet, at):
        at += _HEAD_BYTES + int.from_bytes(packet[at + 3 : at + 5], "big")
        if at >= len(packet) - 4:
            return True
    return False


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    handshake = Handshake()
    return {way: TlsTransform(way, handshake, options.key_logs) for way in Direction}


LAYER = Layer(
    "tls",
    LayerColumn.TRANSPORT,
    _begins,
    _replaces,
    _resumes,
    decrypts=True,
    transforms=_transforms,
)
