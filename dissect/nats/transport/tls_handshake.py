"""What the clear messages of a TLS handshake say: randoms, version, cipher suite, extensions.

RFC 8446 (4) and RFC 5246 (7.4). Hostile messages are cut short in silence: a field that is not there is not
known.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tls_crypto import SUITES, VERSION_13, Suite

CLIENT_HELLO, SERVER_HELLO, END_OF_EARLY_DATA, FINISHED, KEY_UPDATE = 1, 2, 5, 20, 24

_ENCRYPT_THEN_MAC, _SUPPORTED_VERSIONS = 22, 43

# A ServerHello with this random is a HelloRetryRequest (RFC 8446, 4.1.3).
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


@dataclass(slots=True)
class Handshake:
    """What both directions know."""

    client_random: bytes = b""
    server_random: bytes = b""
    version: int = 0
    suite_code: int = -1
    encrypts_then_macs: bool = False

    @property
    def is_known(self) -> bool:
        """Whether both sides have said what keys depend on."""
        return bool(self.client_random and self.server_random)

    @property
    def suite(self) -> Suite | None:
        """The cipher suite; None: not known, or not supported."""
        return SUITES.get(self.suite_code)

    def read(self, kind: int, body: bytes) -> None:
        """Takes a ClientHello or a ServerHello."""
        if len(body) < 34:
            return
        if kind == CLIENT_HELLO:
            self.client_random = body[2:34]
        elif kind == SERVER_HELLO and body[2:34] != _RETRY:
            self._read_server_hello(body)

    def _read_server_hello(self, body: bytes) -> None:
        self.server_random = body[2:34]
        self.version = int.from_bytes(body[:2], "big")
        at = 35 + (body[34] if len(body) > 34 else 0)  # after the session id
        self.suite_code = int.from_bytes(body[at : at + 2], "big")
        found = extensions(body[at + 3 :])
        self.encrypts_then_macs = _ENCRYPT_THEN_MAC in found
        if _SUPPORTED_VERSIONS in found:
            self.version = int.from_bytes(found[_SUPPORTED_VERSIONS][:2], "big")

    @property
    def is_13(self) -> bool:
        """Whether the version is TLS 1.3."""
        return self.version == VERSION_13


def extensions(data: bytes) -> dict[int, bytes]:
    """The extensions of a hello, from the two bytes of their size on."""
    found: dict[int, bytes] = {}
    at, end = 2, 2 + int.from_bytes(data[:2], "big")
    while at + 4 <= min(end, len(data)):
        kind, size = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(
            data[at + 2 : at + 4], "big"
        )
        found[kind] = data[at + 4 : at + 4 + size]
        at += 4 + size
    return found
