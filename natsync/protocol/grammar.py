"""What a control line means: one line of bytes and its context in, one frame without its body out.

As lenient as real servers: operations in any case, runs of blanks and tabs, a bare LF as line end,
anything after PING, PONG and +OK, INFO and CONNECT without a blank. As strict as they are: argument
counts, sizes of 1 to 9 digits, `+` and `|` markers, a header size within the total size, and which side
of which kind of connection sends what (server/parser.go; argument layouts in client.go, route.go,
gateway.go and leafnode.go). Two things differ on purpose: a CR inside a line, which the server treats
differently by where its read buffer ended, is refused where the rest of the line means anything; and a
control line's limit counts extra blanks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from .errors import ProtocolError
from .frames import Context, Frame
from .layouts import FREE, OPS, BadArguments, Parsed, layouts, may_send

Line = tuple[Frame, int, int, int]
"""A control line: the frame without its body, sizes of body (-1: none), headers and whole frame."""

_OP_SIZES = sorted({len(op) for op in OPS}, reverse=True)
_OP_BYTES = _OP_SIZES[0]
_BEGINNINGS = {op[:size] for op in OPS for size in range(1, len(op) + 1)}
_ALIASES_OF_A_MINUS = (b"Au", b"au")  # only so, with a small u (server/parser.go: OP_A)
_IGNORE_THE_REST = (b"PING", b"PONG", b"+OK")
_SEEN_LINES = 4096
_SEEN_LINE_BYTES = 160


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest argument of a control line and the largest body (headers and payload), in bytes.

    The defaults refuse nothing that a real server sends: its `max_payload` is at most 64 MiB, and only
    INFO, which lists every server of a cluster, grows past some kilobytes. A server's own limit for
    what clients send is 4096 bytes a control line (server/const.go: MAX_CONTROL_LINE_SIZE).
    """

    control_line: int = 1 << 20
    payload: int = 64 << 20


class Grammar:
    """The control lines of one context, under `limits`. Shared by all decoders that have the same two.

    `seen` maps lines met before to what they say: traffic repeats itself, and a look-up costs a tenth of
    a parse. It is bounded, and holds lines of messages only.
    """

    def __init__(self, context: Context, limits: Limits) -> None:
        self.limits = limits
        self.seen: dict[bytes, Line] = {}
        self._met = 0
        self._context = context
        self._layouts = layouts(context)
        self._plain_bytes = limits.control_line + 4  # no line up to here can be too long

    def __reduce__(self) -> tuple[Callable[[Context, Limits], Grammar], tuple[Context, Limits]]:
        return grammar, (self._context, self.limits)

    def read(self, line: bytes) -> Line:
        """What the control line `line` (with its LF) says. Raises ProtocolError without an offset."""
        args = line.split()
        layout = self._layouts.get(args[0]) if args else None
        if layout is None or len(line) > self._plain_bytes or b" ".join(args) + b"\r\n" != line:
            frame, size, header_size = self._read_oddity(line)
        else:
            try:
                frame, size, header_size = layout(args)
            except BadArguments as error:
                raise _refused(args, error, line) from None
        if size > self.limits.payload:
            reason = f"body of {size} bytes is over the limit of {self.limits.payload}"
            raise ProtocolError(reason, None, line)
        known = (frame, size, header_size, len(line) if size < 0 else len(line) + size + 2)
        if size >= 0:
            # Lines of a stream that never repeats itself cost more to keep than to read: when the room
            # is used up, seven times as many go by unkept before what is kept makes room for newer ones.
            self._met = met = self._met + 1
            if met <= _SEEN_LINES:
                if len(line) <= _SEEN_LINE_BYTES:
                    self.seen[line] = known
            elif met > _SEEN_LINES * 8:
                self._met = 0
                self.seen.clear()
        return known

    def read_at(self, line: bytes, offset: int) -> Line:
        """As `read`, with errors placed at `offset`, where the line starts in its stream."""
        try:
            return self.read(line)
        except ProtocolError as error:
            raise ProtocolError(error.reason, offset, error.snippet) from None

    def check_start(self, start: bytearray, offset: int) -> None:
        """Raises ProtocolError if no line that begins with `start`, which has no LF yet, can be good."""
        known = bytes(start[:_OP_BYTES])
        if not _may_begin(known) and not _op_of(known):
            raise _unknown(known, offset)
        if len(start) > self.limits.control_line + _OP_BYTES + 2:
            raise self._too_long(known, offset)

    def _check_line(self, text: bytes, op: bytes, rest: bytes) -> None:
        if len(rest) - rest.startswith((b" ", b"\t")) > self.limits.control_line:
            raise self._too_long(text)
        if 13 in rest and op not in _IGNORE_THE_REST:
            raise ProtocolError("carriage return inside a control line", None, text[: len(op)])

    def _too_long(self, text: bytes, offset: int | None = None) -> ProtocolError:
        limit = self.limits.control_line
        return ProtocolError(
            f"control line over the limit of {limit} bytes", offset, text[:_OP_BYTES]
        )

    def _read_oddity(self, line: bytes) -> Parsed:
        """All that is rare: JSON, -ERR and A+, lower case, VT and FF in subjects, and what is wrong."""
        text = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        op = _op_of(text)
        if not op:
            raise _unknown(line)
        rest = text[len(op) :]
        self._check_line(text, op, rest)
        if op not in FREE:
            layout = self._layouts.get(op)
            if layout is None:
                raise self._misplaced(op)
            if rest and not rest.startswith((b" ", b"\t")):
                raise ProtocolError(f"no blank after {op.decode()}", None, text[: len(op) + 1])
            args = [arg for arg in rest.replace(b"\t", b" ").split(b" ") if arg]
            try:
                return layout([op, *args])
            except BadArguments as error:
                raise _refused([op], error, text) from None
        if not may_send(op, self._context):
            raise self._misplaced(op)
        return FREE[op](rest), -1, 0

    def _misplaced(self, op: bytes) -> ProtocolError:
        who, kind = self._context.sender.value, self._context.kind
        where = f"a {kind.value} connection" if kind else "a connection of unknown kind"
        return ProtocolError(f"{op.decode()} is not sent by the {who} of {where}", None, op)


@lru_cache(maxsize=64)
def grammar(context: Context, limits: Limits) -> Grammar:
    """The grammar of `context` under `limits`; one object for all who ask."""
    return Grammar(context, limits)


def _refused(args: list[bytes], error: BadArguments, line: bytes) -> ProtocolError:
    return ProtocolError(f"{args[0].decode()} with {error}", None, line.rstrip(b"\r\n"))


def _unknown(text: bytes, offset: int | None = None) -> ProtocolError:
    """The error shows no more than it takes to see that no operation starts so: it may be a secret."""
    shown = text[:1]
    while len(shown) < len(text) and _may_begin(shown):
        shown = text[: len(shown) + 1]
    return ProtocolError("unknown operation", offset, shown)


def _may_begin(text: bytes) -> bool:
    """Whether `text` is the beginning of an operation, or all of it."""
    return text.upper() in _BEGINNINGS or text in _ALIASES_OF_A_MINUS


def _op_of(text: bytes) -> bytes:
    """The operation that `text` begins with, in upper case; empty if there is none."""
    for size in _OP_SIZES:
        op = text[:size].upper()
        if op in OPS:
            return op
    alias = text[:2] in _ALIASES_OF_A_MINUS and text[2:3] in (b" ", b"\t")
    return b"A-" if alias else b""
