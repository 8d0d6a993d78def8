"""Decodes the bytes of one direction of a NATS connection into frames with their stream offsets.

The decoder never resynchronises: after an error it stays in error, and after a gap that goes beyond the
body in progress, the caller starts a new decoder at the next frame boundary it trusts. Time is linear in
the bytes fed, memory is bounded by the limits. No I/O, no clock, no threads; one caller at a time.
"""

from __future__ import annotations

from io import BytesIO

from .errors import ProtocolError
from .frames import Connect, Context, Frame, HMsg, HPub, Info, Kind, LMsg, Message, RHMsg, Role
from .grammar import Limits, grammar
from .scan import check_end, scan

__all__ = ["Decoder"]


class Decoder:
    """Decodes one stream: pass bytes to `feed`, then call `read` until it returns no more frames.

    `sender` is the side that writes the bytes. `kind` is the kind of connection, or None if INFO or CONNECT
    must reveal it: `read` stops after each of those, so that the caller can call `learn`. With
    `payloads=False`, the payloads of messages are counted but not kept; header blocks are kept. The bytes may
    come in pieces of any size, which never change the frames.

    `offset` is the stream offset of the first byte that belongs to no frame `read` has returned.
    """

    def __init__(
        self,
        sender: Role,
        kind: Kind | None = Kind.CLIENT,
        *,
        limits: Limits = Limits(),
        payloads: bool = True,
        offset: int = 0,
    ) -> None:
        self._limits = limits
        self._payloads = payloads
        self.offset = offset
        self._unread = b""  # bytes that were fed; those from `_start` on are not decoded yet
        self._start = 0
        self._line = bytearray()  # the beginning of a control line whose end has not arrived
        self._body: _Body | None = None
        self._done: list[Frame] = []  # frames that `skip` completed
        self._error: ProtocolError | None = None
        self.has_more = False
        """Whether `read` would return frames, or raise an error, without more bytes."""
        self.context = Context(sender, kind)
        self._grammar = grammar(self.context, limits)

    @property
    def body_left(self) -> int:
        """The number of bytes that the frame in progress still needs; 0 until its control line is known."""
        return self._body.left if self._body else 0

    @property
    def unfinished(self) -> tuple[bytes, bytes]:
        """What is kept of the frame in progress: its control line, as far as it was read, and its body."""
        return (self._body.line, bytes(self._body.kept)) if self._body else (bytes(self._line), b"")

    @property
    def idle(self) -> bool:
        """True between frames: everything fed so far has been returned, and nothing was wrong."""
        return not (self._unread or self._line or self._body or self._done or self._error)

    def learn(
        self, kind: Kind | None = None, *, dedicated: bool | None = None, lnocu: bool | None = None
    ) -> None:
        """Sets how control lines are read from here on. None leaves a setting unchanged."""
        context = self.context
        self.context = context.replace(
            kind=context.kind if kind is None else kind,
            dedicated=context.dedicated if dedicated is None else dedicated,
            lnocu=context.lnocu if lnocu is None else lnocu,
        )
        self._grammar = grammar(self.context, self._limits)

    def feed(self, data: bytes) -> None:
        """Adds the next bytes of the stream. Call `read` until it returns no frames before the next `feed`.

        After an error, bytes are ignored.
        """
        if not self._error:
            self._unread = self._unread[self._start :] + data if self._unread else bytes(data)
            self._start, self.has_more = 0, True

    def skip(self, size: int) -> None:
        """Skips the next `size` bytes of the stream, which never arrive: a gap in a capture.

        The gap must lie within the body in progress (`size <= body_left`), after everything fed was read;
        the frame then has `missing_bytes`. Raises ValueError anywhere else.
        """
        if self._unread or not self._body or not 0 <= size <= self._body.left:
            raise ValueError("a decoder can skip only within the body in progress")
        self._body.miss(size)
        if not self._body.left:
            self._finish_body(self._body, self._done)
            self.has_more = True

    def frame(self, line: bytes, headers: bytes, offset: int) -> Frame:
        """The frame at `offset` with this control line and these headers, in the current context. It was read
        elsewhere, so the decoder does not move. Raises ProtocolError if the line is not valid."""
        frame, _, _, total = self._grammar.seen.get(line) or self._grammar.read_at(line, offset)
        return frame.placed(offset, total, headers)

    def pass_over(self, size: int) -> None:
        """Skips the next `size` bytes of the stream, which are whole frames that another reader decoded.

        Raises ValueError unless the decoder is between frames.
        """
        if not self.idle or size < 0:
            raise ValueError("a decoder can pass over frames only between frames")
        self.offset += size

    def read(self) -> list[Frame]:
        """The next whole frames, in order; an empty list when more bytes are needed.

        Raises ProtocolError at the first bad byte, once every frame before it was returned, and again
        at each later call.
        """
        if self._error:
            raise self._error
        frames, self._done = self._done, []
        if not self._unread:
            self.has_more = False
            return frames
        data, start = self._unread, self._start
        self._unread, self._start = b"", 0
        return self._read(data, start, frames)

    def receive(self, data: bytes) -> list[Frame]:
        """Does `feed` and one `read`. There is nothing more to `read` unless `has_more` is true."""
        if self.has_more:
            self.feed(data)
            return self.read()
        return self._read(data, 0, [])

    def receive_from(self, buffer: BytesIO, size: int) -> list[Frame]:
        """Does `receive` with the first `size` bytes of `buffer`, and overwrites the byte after them. The
        caller may then reuse the buffer."""
        if self.has_more:
            buffer.seek(0)
            return self.receive(buffer.read(size))
        buffer.seek(size)
        buffer.write(b"\n")  # a search for the end of a line ends here
        # The view is released at once: if the garbage collector finds a BytesIO with views, CPython 3.13
        # complains, and 3.12 has crashed.
        with buffer.getbuffer()[:size] as data:
            return self._read(data, 0, [], buffer)

    def _read(
        self,
        data: bytes | memoryview,
        start: int,
        frames: list[Frame],
        stream: BytesIO | None = None,
    ) -> list[Frame]:
        """Adds the frames of `data[start:]` to `frames`; `stream` reads the same bytes, see `scan`."""
        self.has_more = False
        try:
            if self._body is not None or self._line:
                start = self._continue(data, start, frames, stream)
                if start == len(data):
                    return frames
            if stream is None:
                stream = BytesIO(data)
            if not (frames and _paused(frames)):
                grammar, base = self._grammar, self.offset - start
                try:
                    start = scan(stream, start, len(data), base, grammar, self._payloads, frames)
                finally:
                    if frames:
                        last = frames[-1]
                        self.offset = last.offset + last.total_bytes
                if start == len(data):
                    return frames
            if not _paused(frames):
                self._continue(data, start, frames, stream)
            elif isinstance(data, bytes):
                # Not copied: an INFO or a CONNECT may stop the decoder every few bytes.
                self._unread, self._start, self.has_more = data, start, True
            else:
                self._unread, self._start, self.has_more = bytes(data[start:]), 0, True
        except ProtocolError as error:
            self._error = error
            self._unread, self._body, self.has_more = b"", None, True
            self._line.clear()
            if not frames:
                raise
        return frames

    def _continue(
        self,
        data: bytes | memoryview,
        start: int,
        frames: list[Frame],
        stream: BytesIO | None,
    ) -> int:
        """Continues the frame in progress, or begins one; returns the index in `data` where it stopped."""
        body = self._body
        if body is None:
            start = self._begin(stream or BytesIO(data), start, len(data), frames)
            body = self._body
        if body is not None:
            start += body.feed(data, start)
            if not body.left:
                self._finish_body(body, frames)
        return start

    def _begin(self, stream: BytesIO, start: int, stop: int, frames: list[Frame]) -> int:
        """Reads the control line that ends between `start` and `stop` in `stream`, or keeps its beginning."""
        stream.seek(start)
        line = stream.readline()
        end = start + len(line)
        if end > stop or not line.endswith(b"\n"):
            self._line += line[: stop - start]
            self._grammar.check_start(self._line, self.offset)
            return stop
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        frame, size, header_size, total = self._grammar.seen.get(line) or self._grammar.read_at(
            line, self.offset
        )
        if size < 0:
            frames.append(frame.placed(self.offset, total))
            self.offset += total
        else:
            self._body = _Body(line, frame, self.offset, total, size, header_size, self._payloads)
        return end

    def _finish_body(self, body: _Body, frames: list[Frame]) -> None:
        frame = body.finish()
        frames.append(frame)
        self.offset = frame.offset + frame.total_bytes
        self._body = None


def _paused(frames: list[Frame]) -> bool:
    """Whether the caller must see `frames` before decoding goes on: the last one may change the grammar."""
    return bool(frames) and isinstance(frames[-1], (Info, Connect))


class _Body:
    """The body in progress: the bytes that are kept, and the number still to come, CR LF included."""

    __slots__ = (
        "left",
        "line",
        "kept",
        "_frame",
        "_offset",
        "_total",
        "_payload_bytes",
        "_wanted",
        "_missing",
        "_missing_headers",
    )

    def __init__(
        self,
        line: bytes,
        frame: Frame,
        offset: int,
        total: int,
        size: int,
        header_size: int,
        keep: bool,
    ) -> None:
        self.line = line
        self._frame = frame
        self._offset = offset
        self._total = total
        self._payload_bytes = size - header_size
        self._wanted = size if keep else header_size  # bytes from the front that are kept
        self.kept = bytearray()
        self._missing = 0
        self._missing_headers = 0
        self.left = size + 2

    def feed(self, data: bytes | memoryview, start: int) -> int:
        """Takes the bytes of the body from `data[start:]`; returns their number."""
        left = self.left
        taken = len(data) - start
        if taken > left:
            taken = left
        if self._wanted > 0:
            self.kept += data[start : start + (taken if taken < self._wanted else self._wanted)]
            self._wanted -= taken
        self.left = left = left - taken
        if left < 2:
            stop = start + taken
            # A copy: an error keeps this frame, and `data` may be a view, see `receive_from`.
            end = bytes(data[stop + left - 2 : stop] if left + taken > 1 else data[start:stop])
            if end != b"\r\n":
                first = b"" if left + taken > 1 else b"\r"
                check_end(first + end, self._offset + self._total - 2)
        return taken

    def miss(self, size: int) -> None:
        """Skips `size` bytes that never arrive."""
        body_left = max(0, self.left - 2)
        lost = min(size, max(0, body_left - self._payload_bytes))
        self._missing_headers += lost
        self._missing += min(size, body_left) - lost
        self._wanted -= size
        self.left -= size

    def finish(self) -> Frame:
        """The whole frame."""
        lost = self._missing_headers
        body = bytes(self.kept)
        frame = self._frame.placed(self._offset, self._total, bytes(lost) + body if lost else body)
        if self._missing and isinstance(frame, Message):
            frame.missing_bytes = self._missing
        if lost and isinstance(frame, (HPub, HMsg, RHMsg, LMsg)):
            frame.headers = b""
        return frame
