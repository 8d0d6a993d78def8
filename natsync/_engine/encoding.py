"""The encoding of messages, with all checks, in the call that publishes them.

Any thread may call any method. Single dictionary operations, which are atomic, replace a lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from .._checks import check_data, check_text, plain
from ..errors import HeadersNotSupportedError, MaxControlLineError, MaxPayloadError
from ..headers import HeadersLike, encode_headers, to_wire
from ..message import Data
from ..options import MAX_CONTROL_LINE
from ..protocol import ServerInfo, are_plain, check_publish
from ..protocol.subjects import NOT_PLAIN

__all__ = ["LARGE", "SIZE_LINES", "MessageEncoder"]

_SUBJECTS = 1024
"""The number of subjects whose wire form is kept, which takes 250 KB. A message to another subject takes 0.3
us more. Among 20,000 kept subjects, a look-up would also take 0.3 us, because the processor's caches miss
(CPython 3.11)."""
_TRIAL = _SUBJECTS + 256
"""After this many messages to other subjects, the encoder decides whether to look up subjects until the
renewal. A look-up that finds nothing takes 0.1 us."""
_WORTH = 8
"""Look-ups continue if at least one message in about this many went to a kept subject."""
_RENEWAL = 16 * _SUBJECTS
"""After this many messages to other subjects, the kept ones are dropped and new ones are kept. With a quarter
of this number, messages to 20,000 subjects take 0.01 us more."""
_LONGEST = 256
"""Longer subjects are not kept."""
_LINE = MAX_CONTROL_LINE - 18
"""A subject, or a subject and a reply, of up to this many bytes always fits into a control line, even with
two spaces and two eight-digit sizes. Longer ones are measured exactly."""
_PUB = b"PUB "
_TOKEN = 16
"""The longest token of a request. No client makes more requests than that."""
_START = _LINE - _TOKEN
"""A request whose part before the token has up to this many bytes always fits into a control line."""
_EMPTY = b"0\r\n\r\n"
"""The end of a message without payload."""
LARGE = 4096
"""Payloads of this size or more are not copied here, but sent as `Chunks`. With 512, a message of 1 KiB takes
1.2 times as much CPU time; with 20,000, a message of 16 KiB does (CPython 3.11)."""
SIZE_LINES = [b" %d\r\n" % size for size in range(LARGE)]
"""The end of a PUB line for each size of a payload that is not large: 200 KB of them, made in 0.4 ms.
Formatting one takes 0.1 us (CPython 3.11)."""

_join_request = bytearray().join  # makes a bytearray

_find_nothing = cast("Callable[[str], None]", ().count)
"""Returns 0, and does not even hash the subject."""


class MessageEncoder:
    """Encodes messages for a server with this `info`. `subjects` has the wire forms of some subjects;
    `recall` returns the wire form of one subject, or None."""

    __slots__ = (
        "subjects",
        "recall",
        "max_payload",
        "small",
        "_headers",
        "_others",
        "_found",
        "_next",
        "_starts",
    )

    def __init__(self, info: ServerInfo) -> None:
        self.max_payload = info.max_payload
        self.small = min(LARGE, info.max_payload + 1)  # smaller payloads have their SIZE_LINES
        self.subjects: dict[str, bytes] = {}
        self.recall: Callable[[str], bytes | None] = self.subjects.get
        self._headers = info.headers
        self._others = 0  # the approximate number of messages to subjects that were not kept
        self._found = 0  # messages to kept subjects in the trial
        self._next = 0  # `_learn` is called once `_others` has reached this number
        self._starts: dict[str, bytes] = {}  # requests up to the token, for some `subjects`

    def message(
        self, subject: str, data: Data, reply: str | None, headers: HeadersLike | None
    ) -> bytes:
        """Returns a complete message. Raises the errors of `Client.publish`."""
        if subject.__class__ is not str:  # nearly all are strings, and `isinstance` takes longer
            check_text(subject=subject)
            subject = plain(subject)
        if reply:
            to = self.wire_pair(subject, reply)
        else:
            to = self.recall(subject) or self.wire_subject(subject)
        return self._encode(to, data, headers)

    def request(
        self, subject: str, data: Data, inbox: bytes, token: bytes, headers: HeadersLike | None
    ) -> bytearray:
        """Returns a complete message as `RequestBytes`. Its reply subject is `inbox`, which is the same in
        all calls, followed by `token`; neither is checked."""
        if subject.__class__ is not str:
            check_text(subject=subject)
            subject = plain(subject)
        start = self._starts.get(subject)
        if start is None:
            to = self.subjects.get(subject) or self.wire_subject(subject)
            start = b"".join((_PUB, to, b" ", inbox))
            if len(start) > _START:
                return bytearray(self._encode(start[len(_PUB) :] + token, data, headers))
            if subject in self.subjects:
                self._starts[subject] = start
        if headers or data.__class__ is not bytes or len(data) > self.max_payload:
            return bytearray(self._encode(start[len(_PUB) :] + token, data, headers))
        size = len(data)
        line_end = SIZE_LINES[size] if size < LARGE else b" %d\r\n" % size
        return _join_request((start, token, line_end, data, b"\r\n"))

    def large_request(
        self, subject: str, data: bytes, inbox: bytes, token: bytes
    ) -> tuple[bytes, bytes, bytes]:
        """Returns the message of `request` in three pieces, so that `data` is not copied."""
        size = len(data)
        if size > self.max_payload:
            raise MaxPayloadError(size, self.max_payload)
        wire = self.request(subject, b"", inbox, token, None)
        start = bytes(wire[: -len(_EMPTY)])
        if len(start) > _LINE:
            _check_line(start[len(_PUB) :], b"%d" % size)
        return b"%b%d\r\n" % (start, size), data, b"\r\n"

    def request_to(self, subject: str, data: Data, reply: bytes) -> bytes:
        """Returns a complete message with a reply subject, which is not checked."""
        to = self.subjects.get(subject) or self.wire_subject(subject)
        return self._encode(b"%b %b" % (to, reply), data, None)

    def response(self, subject: bytes, data: Data, headers: HeadersLike | None) -> bytes:
        """Returns a complete message to a subject that a server sent; only the length is checked."""
        return self._encode(subject, data, headers)

    def _encode(self, to: bytes, data: Data, headers: HeadersLike | None) -> bytes:
        """Returns a complete message. `to` is the subject, or the subject and the reply."""
        if data.__class__ is not bytes:
            check_data(data)
            data = memoryview(data).tobytes()
        size = len(data)
        if headers:
            if not self._headers:
                raise HeadersNotSupportedError
            block = encode_headers(headers)
            size += len(block)
            if size > self.max_payload:
                raise MaxPayloadError(size, self.max_payload)
            sizes = b" %d %d\r\n" % (len(block), size)
            if len(to) > _LINE:
                _check_line(to, sizes)
            return b"".join((b"HPUB ", to, sizes, block, data, b"\r\n"))
        if size > self.max_payload:
            raise MaxPayloadError(size, self.max_payload)
        line_end = SIZE_LINES[size] if size < LARGE else b" %d\r\n" % size
        if len(to) > _LINE:
            _check_line(to, line_end)
        return b"".join((b"PUB ", to, line_end, data, b"\r\n"))

    def refusal(
        self, start: bytes | bytearray
    ) -> MaxPayloadError | HeadersNotSupportedError | None:
        """Returns the error that the publisher of a message would have got, if the message was encoded for
        another server and this one refuses it. `start` begins with its control line."""
        line = start[: start.find(b"\r\n")]
        size = int(line.rpartition(b" ")[2])
        if size > self.max_payload:
            return MaxPayloadError(size, self.max_payload)
        return HeadersNotSupportedError() if line[:1] == b"H" and not self._headers else None

    def wire_subject(self, subject: str, size: int = 0) -> bytes:
        """Returns the wire form of `subject`, and may keep it. Raises ProtocolError for an
        invalid subject, MaxControlLineError for one that does not fit with a payload of `size` bytes.
        """
        try:
            wire = subject.encode()
        except UnicodeEncodeError:  # a lone surrogate
            wire = _checked(subject, "subject")
        # The test of `are_plain`, whose call and second `encode` would take a quarter of this method's time.
        if wire.translate(NOT_PLAIN) != wire or ".." in f".{subject}.":
            wire = _checked(subject, "subject")
        if len(wire) > _LINE:
            _check_line(wire, b" %d" % size)
        self._others = others = self._others + 1
        if others >= self._next:
            self._learn(subject, wire, others)
        return wire

    def _learn(self, subject: str, wire: bytes, others: int) -> None:
        """Keeps the first subjects, then measures whether look-ups pay, and after `_RENEWAL` messages to
        other subjects starts again with new ones. `others` is the number of such messages."""
        if others <= _SUBJECTS:
            if len(wire) <= _LONGEST:
                self.subjects[subject] = wire
        elif others < _TRIAL:
            self.recall = self._try
        elif others <= _RENEWAL:
            is_worth = self._found * _WORTH >= _TRIAL - _SUBJECTS
            self.recall = self.subjects.get if is_worth else _find_nothing
            self._next = _RENEWAL + 1
        else:
            self._others = self._found = self._next = 0
            self.subjects.clear()
            self._starts.clear()
            self.recall = self.subjects.get

    def _try(self, subject: str) -> bytes | None:
        """Looks up a subject, and counts it if it is found."""
        wire = self.subjects.get(subject)
        if wire:
            self._found += 1
        return wire

    def wire_pair(self, subject: str, reply: str, size: int = 0) -> bytes:
        """Returns the wire form of a subject and a reply subject, as in a control line. Keeps nothing,
        because reply subjects do not repeat. Raises ProtocolError if one is invalid, MaxControlLineError if
        they do not fit with a payload of `size` bytes."""
        if reply.__class__ is not str:
            check_text(reply=reply)
            reply = plain(reply)
        if are_plain(f".{subject}.{reply}."):
            wire = f"{subject} {reply}".encode()
        else:
            wire = b" ".join((_checked(subject, "subject"), _checked(reply, "reply")))
        if len(wire) > _LINE:
            _check_line(wire, b" %d" % size)
        return wire


def _check_line(to: bytes, sizes: bytes) -> None:
    """Raises MaxControlLineError if the control line is too long. The server counts the bytes after the
    op and its space, up to the line end (server/parser.go: overMaxControlLineLimit)."""
    size = len(to) + len(sizes.rstrip())
    if size > MAX_CONTROL_LINE:
        raise MaxControlLineError(size, MAX_CONTROL_LINE)


def _checked(subject: str, what: str) -> bytes:
    wire = to_wire(subject)
    check_publish(wire, what)
    return wire
