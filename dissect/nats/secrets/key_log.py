"""TLS secrets from key logs: files in NSS format, and the Decryption Secrets Blocks of pcapng files.

A line is `LABEL CLIENT_RANDOM SECRET`, the last two in hexadecimal
(https://datatracker.ietf.org/doc/draft-ietf-tls-keylogfile/); other lines are skipped, as the format asks.
Secrets stay in the process that reads them: a connection that continues in another process takes along the
names of files, never a secret. Secrets embedded in a capture apply only to the captures of the same
dissection, but to all of their packets, because some programs write secrets after the packets.
"""

from __future__ import annotations

import os
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from time import monotonic

from ..errors import CaptureError, MissingLibrary, imported, reason_of

MOST_SECRETS = 1_000_000
"""The limit on secrets of one file, of the kinds in `LABELS`. They take 210 MB of memory if each belongs to
another connection (TLS 1.2), and 75 MB if each connection has four (TLS 1.3)."""

LABELS = (
    "CLIENT_RANDOM",
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
)
"""The kinds of secrets that protect records. Others, such as those of exporters, are skipped."""
_CODES = {label: code for code, label in enumerate(LABELS)}
_CODES_IN_LINES = {label.encode(): code for label, code in _CODES.items()}

_REFRESH_SECONDS = 0.1
"""If a secret is not in the file, requests for it do not read the file again for this long, because a
connection without secrets asks for one with each record. The first `_FIRST_TIMES` requests for a secret
always read the file, because a secret may be written a moment after it is needed."""
_FIRST_TIMES = 8
_MOST_MISSING = 10_000  # missing secrets that are remembered; if there are more, all are forgotten

_RANDOM_BYTES = 32
_MOST_ALTERNATIVES = 8  # secrets of one kind for one connection; each may be tried on a record
_MOST_SECRET_BYTES = 64  # of the longest hash; a master secret has 48
# The shortest label, a random, a secret of one byte, and two spaces. Shorter lines are skipped, which takes a
# sixth of the time of parsing them.
_LEAST_LINE_BYTES = min(map(len, LABELS)) + 2 * _RANDOM_BYTES + 4
_MOST_LINE_BYTES = 1024
_END_BYTES = 128  # they reach into the secret of the last line, and so tell one file from another


class KeyLog:
    """The secrets of one file. While it is used, the file may grow or be rewritten."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        # By client random: for each secret, the code of its label, its size, and the secret, concatenated. A
        # dictionary and an object for each would take twice the memory.
        self._secrets: dict[bytes, bytes] = {}
        self._count = 0
        self._status = (
            0,
            0,
            0,
        )  # of the file when it was last read: inode, size, time of the last change
        self._read_bytes = 0
        self._end = b""  # the last bytes that were read
        self._rest = b""
        # By client random and label: the number of requests, and the time of the next read.
        self._missing: dict[tuple[bytes, str], tuple[int, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __repr__(self) -> str:
        return f"KeyLog({self.path!r}, {self._count} secrets)"

    def clear(self) -> None:
        """Forgets all secrets."""
        self._secrets.clear()
        self._count = 0

    def randoms(self, label: str) -> Iterator[bytes]:
        """The randoms of the connections that have a secret with this label, the latest first."""
        if self.path:
            self.refresh()
        code = _CODES[label]
        return (each for each, held in reversed(self._secrets.items()) if _secrets_in(held, code))

    def find(self, client_random: bytes, label: str) -> list[bytes]:
        """The secrets of the connection whose ClientHello has this random: none if they are not known yet,
        and several if the log contradicts itself, as one does that an earlier program wrote to, too.
        """
        code = _CODES[label]
        found = _secrets_in(self._secrets.get(client_random, b""), code)
        if found or not self.path:
            return found
        now, wanted = monotonic(), (client_random, label)
        times, next_time = self._missing.get(wanted, (0, 0.0))
        if times >= _FIRST_TIMES and now < next_time:
            return []
        if len(self._missing) >= _MOST_MISSING:
            self._missing.clear()
        self._missing[wanted] = times + 1, now + _REFRESH_SECONDS
        self.refresh()
        return _secrets_in(self._secrets.get(client_random, b""), code)

    def refresh(self) -> None:
        """Reads what was added to the file, or all of it if it was rewritten. Raises CaptureError if it
        cannot be read or is no text."""
        try:
            found = os.stat(self.path)
            status = found.st_ino, found.st_size, found.st_mtime_ns
            if status == self._status:
                return
            with open(self.path, "rb") as file:
                _check_text(self.path, file.read(_MOST_LINE_BYTES))
                file.seek(self._read_bytes - len(self._end))
                if file.read(len(self._end)) != self._end:  # the file was rewritten
                    file.seek(0)
                    self._read_bytes, self._end, self._rest = 0, b"", b""
                while data := file.read(1 << 20):
                    self._read_bytes += len(data)
                    self._end = (self._end + data)[-_END_BYTES:]
                    self.add(data)
            self._status = status
        except (OSError, ValueError) as error:
            raise CaptureError(
                self.path, f"the key log cannot be read: {reason_of(error)}"
            ) from None

    def add(self, data: bytes, path: str = "") -> None:
        """Adds the next bytes of the log. Raises CaptureError beyond `MOST_SECRETS`; `path` is the file that
        these bytes come from, if it is not the log's own."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MOST_LINE_BYTES:  # too long for a line of this format
            self._rest = b"#"
        for line in lines:
            if len(line) >= _LEAST_LINE_BYTES:
                self._add_line(line, path or self.path)

    def _add_line(self, line: bytes, path: str) -> None:
        fields = line.split()
        code = _CODES_IN_LINES.get(fields[0]) if len(fields) == 3 else None
        if code is None:
            return
        try:
            random, secret = unhexlify(fields[1]), unhexlify(fields[2])
        except ValueError:
            return
        if len(random) != _RANDOM_BYTES or not 0 < len(secret) <= _MOST_SECRET_BYTES:
            return
        held = self._secrets.get(random, b"")
        found = _secrets_in(held, code)
        # A capture that is read again has the same secrets.
        if secret in found or len(found) == _MOST_ALTERNATIVES:
            return
        self._count += 1
        if self._count > MOST_SECRETS:
            reason = f"the key log has more than {MOST_SECRETS} secrets"
            raise CaptureError(path, reason, "keep those of the capture's time")
        self._secrets[random] = held + bytes((code, len(secret))) + secret


def _secrets_in(held: bytes, code: int) -> list[bytes]:
    found, at = [], 0
    while at < len(held):
        secret = at + 2
        end = secret + held[at + 1]
        if held[at] == code:
            found.append(held[secret:end])
        at = end
    return found


@cache
def key_log(path: str) -> KeyLog:
    """The key log of a file, the same for all connections of this process."""
    return KeyLog(path)


@cache  # called for each record
def decryption_lack() -> MissingLibrary | None:
    """Why nothing can be decrypted: the library is not installed, or cannot be imported. None: it can."""
    try:
        imported("cryptography.hazmat.primitives.ciphers.aead", "tls", "cryptography")
    except MissingLibrary as error:
        return error
    return None


def open_key_logs(paths: Iterable[str]) -> tuple[str, ...]:
    """Reads key logs, and returns their absolute paths, for other processes. Raises CaptureError if one
    cannot be read or is no text, and MissingLibrary if the library that decrypts is not installed.
    """
    found = tuple(map(os.path.abspath, paths))
    lack = decryption_lack() if found else None
    if lack:
        raise lack.with_traceback(None)  # it may have been raised before
    for path in found:
        key_log(path).refresh()
    return found


def without_secrets(paths: Iterable[str]) -> list[str]:
    """The key logs that can be read, and have no secret: an empty file, or one that is no key log."""
    found = []
    for path in paths:
        log = key_log(os.path.abspath(path))
        with suppress(CaptureError):  # `open_key_logs` tells it
            log.refresh()
            if not log:
                found.append(path)
    return found


def _check_text(path: str, begin: bytes) -> None:
    """Raises CaptureError for a file that begins with binary data, such as a capture: all of it would be
    skipped as lines of other kinds, and nothing decrypted."""
    if b"\0" in begin:
        remedy = "name the file that SSLKEYLOGFILE named, in ASCII"
        raise CaptureError(path, "is not a key log: it has binary data", remedy)


class KeyLogs:
    """All secrets of one dissection: from key log files, and embedded in its captures.

    A pickle of it has the paths of the files, but no secret. A restored connection gets the key logs of the
    dissection that continues it.
    """

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        self._paths = paths
        self.embedded = KeyLog()
        """The secrets embedded in the captures; the readers of captures add them."""

        self._look_ahead: Callable[[KeyLog], None] | None = None

    def __reduce__(self) -> tuple[type[KeyLogs], tuple[tuple[str, ...]]]:
        return KeyLogs, (self._paths,)

    def look_ahead_with(self, read: Callable[[KeyLog], None]) -> None:
        """Sets a function that is called before secrets are first needed, and adds the secrets of whole
        captures to `embedded`. So captures without TLS are never read twice."""
        self._look_ahead = read

    @property
    def may_have_secrets(self) -> bool:
        """Whether secrets may be found, and the library that uses them is installed."""
        return bool(self._paths) or bool(self._all_embedded()) and not decryption_lack()

    def find(self, client_random: bytes, label: str) -> Iterator[bytes]:
        """The secrets of the connection whose ClientHello has this random. A log is read only when
        the secrets of those before it are used up."""
        for log in self._logs():
            yield from log.find(client_random, label)

    def randoms(self, label: str) -> Iterator[bytes]:
        """The randoms of all connections that have a secret with this label, the latest of each log first."""
        for log in self._logs():
            yield from log.randoms(label)

    def _logs(self) -> Iterator[KeyLog]:
        yield from map(key_log, self._paths)
        yield self._all_embedded()

    def _all_embedded(self) -> KeyLog:
        if self._look_ahead:
            read, self._look_ahead = self._look_ahead, None
            read(self.embedded)
        return self.embedded
