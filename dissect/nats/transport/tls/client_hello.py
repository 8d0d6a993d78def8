"""The ClientHello of TLS: its fields, and its JA3 and JA4 fingerprints.

RFC 8446 (4.1.2). JA3 is the MD5 of five lists (https://github.com/salesforce/ja3); JA4 is a readable part and
two truncated SHA-256 hashes (https://github.com/FoxIO-LLC/ja4). Both distinguish TLS libraries, not users. A
malformed message raises no error: fields that are not there are empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

SERVER_NAME, ALPN, EARLY_DATA, SUPPORTED_VERSIONS = 0, 16, 42, 43
_GROUPS, _POINT_FORMATS, _SIGNATURES = 10, 11, 13

_SERVER_NAME_HEAD = 5  # size of the list, type of the name, its size
_NO_HASH = "0" * 12
_VERSION_NAMES = {0x0304: "13", 0x0303: "12", 0x0302: "11", 0x0301: "10", 0x0300: "s3"}


class ClientHello(NamedTuple):
    """A ClientHello. `version` is the legacy version field, which is 1.2 in TLS 1.3."""

    version: int
    random: bytes
    suites: tuple[int, ...]
    extensions: dict[int, bytes]

    @property
    def server_name(self) -> str:
        """The name of the server (SNI); empty if it is not in the hello."""
        field = self.extensions.get(SERVER_NAME, b"")
        size = int.from_bytes(field[3:_SERVER_NAME_HEAD], "big")
        name = field[_SERVER_NAME_HEAD : _SERVER_NAME_HEAD + size]
        return name.decode("utf-8", "backslashreplace")

    @property
    def protocols(self) -> list[str]:
        """The application protocols on offer (ALPN)."""
        field, at = self.extensions.get(ALPN, b"")[2:], 0
        found = []
        while at < len(field):
            size = field[at]
            found.append(field[at + 1 : at + 1 + size].decode("utf-8", "backslashreplace"))
            at += 1 + size
        return found

    @property
    def ja3(self) -> str:
        """The JA3 fingerprint."""
        groups = _numbers(self.extensions.get(_GROUPS, b"")[2:])
        formats = self.extensions.get(_POINT_FORMATS, b"")[1:]
        lists = (_real(self.suites), _real(self.extensions), _real(groups), formats)
        fields = [str(self.version), *("-".join(map(str, each)) for each in lists)]
        return hashlib.md5(",".join(fields).encode(), usedforsecurity=False).hexdigest()

    @property
    def ja4(self) -> str:
        """The JA4 fingerprint."""
        versions = _numbers(self.extensions.get(SUPPORTED_VERSIONS, b"")[1:])
        version = max(_real(versions), default=self.version)
        suites, kinds = _real(self.suites), _real(self.extensions)
        hashed = sorted(kind for kind in kinds if kind not in (SERVER_NAME, ALPN))
        signatures = _numbers(self.extensions.get(_SIGNATURES, b"")[2:])
        named = "d" if SERVER_NAME in self.extensions else "i"
        counts = f"{min(len(suites), 99):02}{min(len(kinds), 99):02}"
        shape = f"t{_VERSION_NAMES.get(version, '00')}{named}{counts}{self._alpn_ends()}"
        text = _hex(hashed) + ("_" + _hex(signatures) if signatures else "")
        return f"{shape}_{_short_hash(_hex(sorted(suites)))}_{_short_hash(text if hashed else '')}"

    def _alpn_ends(self) -> str:
        """The first and the last character of the first protocol."""
        field = self.extensions.get(ALPN, b"")
        first = field[3 : 3 + field[2]] if len(field) > 3 else b""
        if not first:
            return "00"
        ends = first[:1] + first[-1:]
        if all(byte < 128 and chr(byte).isalnum() for byte in ends):
            return ends.decode("ascii")
        return first.hex()[0] + first.hex()[-1]


def read_client_hello(body: bytes) -> ClientHello | None:
    """The ClientHello in the body of a handshake message; None if the body is too short to contain a
    random."""
    if len(body) < 34:
        return None
    at = 35 + (body[34] if len(body) > 34 else 0)  # after the session id
    size = int.from_bytes(body[at : at + 2], "big")
    suites = _numbers(body[at + 2 : at + 2 + size])
    at += 2 + size
    at += 1 + (body[at] if len(body) > at else 0)  # after the compression methods
    version = int.from_bytes(body[:2], "big")
    return ClientHello(version, body[2:34], tuple(suites), extensions(body[at:]))


def extensions(data: bytes) -> dict[int, bytes]:
    """The extensions of a hello, in order. `data` begins with the two bytes of their total size."""
    found: dict[int, bytes] = {}
    at, end = 2, 2 + int.from_bytes(data[:2], "big")
    while at + 4 <= min(end, len(data)):
        kind, size = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(
            data[at + 2 : at + 4], "big"
        )
        found[kind] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return found


def _numbers(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data) - 1, 2)]


def _real(numbers: Iterable[int]) -> list[int]:
    """The numbers without GREASE values (RFC 8701), which clients add only to keep servers tolerant."""
    return [each for each in numbers if each & 0x0F0F != 0x0A0A or each >> 8 != each & 0xFF]


def _hex(numbers: Iterable[int]) -> str:
    return ",".join(f"{each:04x}" for each in numbers)


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12] if text else _NO_HASH
