"""Parses control lines: one line of bytes and its context in, one frame without its body out.

As lenient as real servers: operations in any case, runs of blanks and tabs, a bare LF as line end,
anything after PING, PONG and +OK, INFO and CONNECT without a blank. As strict as they are: argument
counts, sizes of 1 to 9 digits, `+` and `|` markers, a header size within the total size, and which side
of which kind of connection sends what (server/parser.go; argument layouts in client.go, route.go,
gateway.go and leafnode.go). Two things differ on purpose: a CR inside a line is refused unless the rest of
the line is ignored (the server treats it differently depending on where its read buffer ended); and the
limit of a control line counts extra blanks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from io import BytesIO

from .arguments import FREE, OPS, interest, may_send, messages
from .errors import ProtocolError
from .frames import Context, Frame, Message
from .messages import MAX_NUMBER, BadArguments, ParseMessage, number
from .seen import Line, SeenLines
from .structs import Struct

_Parsed = tuple[Frame, int, int]

_OP_SIZES = sorted({len(op) for op in OPS}, reverse=True)
_OP_BYTES = _OP_SIZES[0]
_BEGINNINGS = {op[:size] for op in OPS for size in range(1, len(op) + 1)}
_ALIASES_OF_A_MINUS = (b"Au", b"au")  # only these two, with a small u (server/parser.go: OP_A)
_IGNORE_THE_REST = (b"PING", b"PONG", b"+OK")
_no_body = BytesIO().read


class Limits(Struct, frozen=True):
    """The largest argument of a control line and the largest body (headers and payload), in bytes.

    The defaults refuse nothing that a real server sends: its `max_payload` is at most 64 MiB, and only
    INFO, which lists every server of a cluster, grows past some kilobytes. A server's own limit for
    what clients send is 4096 bytes for a control line (server/const.go: MAX_CONTROL_LINE_SIZE).
    """

    control_line: int = 1 << 20
    payload: int = 64 << 20


class Grammar:
    """Reads the control lines of one context, under `limits`. Decoders with the same two share a grammar.

    `seen` holds control lines of messages that were read before. `plain` has what `scan` needs for messages:
    the look-up of a parser, the length up to which no line is over the limit, and the largest body.
    """

    def __init__(self, context: Context, limits: Limits) -> None:
        self.limits = limits
        self.seen = SeenLines()
        self._safe_bytes = limits.control_line + 4  # no line up to this length is over the limit
        self._context = context
        self._messages = messages(context)
        self.plain = self._messages.get, self._safe_bytes, limits.payload
        self._interest = interest(context)

    def __reduce__(self) -> tuple[Callable[[Context, Limits], Grammar], tuple[Context, Limits]]:
        return grammar, (self._context, self.limits)

    def read(self, line: bytes) -> Line:
        """The meaning of the control line `line` (with its LF). Raises ProtocolError without an offset."""
        args = line.split()
        if args and len(line) <= self._safe_bytes and b" ".join(args) + b"\r\n" == line:
            parsed = self._parse(args, line)
        else:
            parsed = None
        frame, size, header_size = parsed or self._read_oddity(line)
        if size < 0:
            return frame, size, header_size, len(line)
        if size > self.limits.payload:
            reason = f"body of {size} bytes is over the limit of {self.limits.payload}"
            raise ProtocolError(reason, None, line)
        if isinstance(frame, Message) and self.seen.learning:
            self.seen.keep(line, frame, size)
        return frame, size, header_size, len(line) + size + 2

    def read_at(self, line: bytes, offset: int) -> Line:
        """Like `read`, but an error has `offset`, the place where the line starts in its stream."""
        try:
            return self.read(line)
        except ProtocolError as error:
            raise ProtocolError(error.reason, offset, error.snippet) from None

    def check_start(self, start: bytearray, offset: int) -> None:
        """Raises ProtocolError if no valid line begins with `start`, which has no LF yet."""
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

    def _parse(self, args: list[bytes], line: bytes) -> _Parsed | None:
        """The frame of `args` without its body; None if `args[0]` is not an operation that takes a list."""
        op = args[0]
        try:
            if op in self._messages:
                return _parse_message(self._messages[op], args)
            return (self._interest[op](args), -1, 0) if op in self._interest else None
        except BadArguments as error:
            reason = f"{op.decode()} with {error}"
            raise ProtocolError(reason, None, line.rstrip(b"\r\n")) from None

    def _read_oddity(self, line: bytes) -> _Parsed:
        """Parses everything rare: JSON, -ERR and A+, lower case, VT and FF in subjects, and invalid lines."""
        text = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        op = _op_of(text)
        if not op:
            raise _unknown(line)
        rest = text[len(op) :]
        self._check_line(text, op, rest)
        if op not in FREE:
            if op not in self._messages and op not in self._interest:
                raise self._misplaced(op)
            if rest and not rest.startswith((b" ", b"\t")):
                raise ProtocolError(f"no blank after {op.decode()}", None, text[: len(op) + 1])
            args = [arg for arg in rest.replace(b"\t", b" ").split(b" ") if arg]
            parsed = self._parse([op, *args], text)
            assert parsed
            return parsed
        if not may_send(op, self._context):
            raise self._misplaced(op)
        return FREE[op](rest), -1, 0

    def _misplaced(self, op: bytes) -> ProtocolError:
        who, kind = self._context.sender.value, self._context.kind
        where = f"a {kind.value} connection" if kind else "a connection of unknown kind"
        return ProtocolError(f"{op.decode()} is not sent by the {who} of {where}", None, op)


@lru_cache(maxsize=64)
def grammar(context: Context, limits: Limits) -> Grammar:
    """The grammar of `context` under `limits`; one object for all callers."""
    return Grammar(context, limits)


def _parse_message(parse: ParseMessage, args: list[bytes]) -> _Parsed:
    try:
        size = number(args[-1])
        frame = parse(args, 0, 0, size, _no_body)
    except BadArguments:
        parse(args, 0, 0, MAX_NUMBER, _no_body)  # a wrong number of arguments is the better reason
        raise
    return frame, size, frame.header_bytes


def _unknown(text: bytes, offset: int | None = None) -> ProtocolError:
    """Makes an error that shows only as many bytes as prove that no operation starts with them: the rest may
    be a secret."""
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
