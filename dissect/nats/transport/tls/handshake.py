"""The facts in the messages of a TLS handshake: randoms, version, cipher suite, certificates, alerts.

RFC 8446 (4) and RFC 5246 (7.4). A malformed message raises no error: fields that are not there stay unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import imported
from ...schema.records import Value
from .certificate import Certificate, first_certificate, read_certificate
from .client_hello import EARLY_DATA, SUPPORTED_VERSIONS, extensions, read_client_hello
from .crypto import SUITES, VERSION_13, Suite

CLIENT_HELLO, SERVER_HELLO, END_OF_EARLY_DATA = 1, 2, 5
CERTIFICATE, FINISHED, KEY_UPDATE = 11, 20, 24

_ENCRYPT_THEN_MAC = 22
_MOST_ALERTS = 16

# A ServerHello with this random is a HelloRetryRequest (RFC 8446, 4.1.3).
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

VERSION_12 = 0x0303
_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "1.0", 0x0302: "1.1", VERSION_12: "1.2", VERSION_13: "1.3"}

_ALERTS = {
    10: "unexpected message",
    20: "bad record MAC",
    40: "handshake failure",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    47: "illegal parameter",
    48: "unknown certificate authority",
    49: "access denied",
    50: "decode error",
    51: "decrypt error",
    70: "protocol version",
    71: "insufficient security",
    80: "internal error",
    86: "inappropriate fallback",
    90: "user canceled",
    112: "unrecognized name",
    116: "certificate required",
    120: "no application protocol",
}


@dataclass(slots=True)
class Handshake:
    """The facts that both directions share.

    - `client_encrypts`: the client has sent a record that stays encrypted.
    - `is_proven`: a hello was not captured, but a record could be opened, which proves what the hello said.
    - `says_missing`: an anomaly has reported that a hello is missing.
    """

    client_random: bytes = b""
    server_random: bytes = b""
    version: int = 0
    suite_code: int = -1
    encrypts_then_macs: bool = False
    offers_early_data: bool = False
    client_encrypts: bool = False
    is_proven: bool = False
    says_missing: bool = False
    server_name: str = ""
    protocols: list[str] = field(default_factory=list)
    ja3: str = ""
    ja4: str = ""
    server_certificate: Certificate | None = None
    client_certificate: Certificate | None = None
    alerts: list[str] = field(default_factory=list)

    @property
    def is_known(self) -> bool:
        """Whether everything is known on which the keys depend."""
        return bool(self.client_random and self.server_random) or self.is_proven

    @property
    def has_hello(self) -> bool:
        """Whether the hello of one side was captured."""
        return bool(self.client_random or self.server_random) and not self.is_proven

    @property
    def is_other(self) -> bool:
        """Whether the client offers protocols (RFC 7301, ALPN) that do not carry NATS. NATS clients offer
        none, and WebSocket clients offer only HTTP/1.1."""
        return bool(set(self.protocols) - {"http/1.1"})

    @property
    def is_13(self) -> bool:
        """Whether the version is TLS 1.3."""
        return self.version == VERSION_13

    @property
    def version_text(self) -> str:
        """The version that the server chose; empty: unknown."""
        return _VERSIONS.get(self.version, f"{self.version:#06x}") if self.version else ""

    @property
    def suite(self) -> Suite | None:
        """The cipher suite; None: unknown, or not supported."""
        return SUITES.get(self.suite_code)

    def read(self, kind: int, body: bytes) -> None:
        """Reads a ClientHello or a ServerHello."""
        if len(body) < 34:
            return
        if kind == CLIENT_HELLO:
            self._read_client_hello(body)
        elif kind == SERVER_HELLO and body[2:34] == _RETRY:
            # A ChangeCipherSpec that follows changes no keys (RFC 8446, appendix D.4).
            self.version = VERSION_13
        elif kind == SERVER_HELLO:
            self._read_server_hello(body)

    def read_certificate(self, of_client: bool, body: bytes) -> Certificate | None:
        """Reads a Certificate message; returns the certificate of its sender."""
        found = read_certificate(first_certificate(body, self.is_13))
        if of_client:
            self.client_certificate = found
        else:
            self.server_certificate = found
        return found

    def add_alert(self, code: int) -> str:
        """Adds an alert by its code; returns its text."""
        return self.note_alert(_ALERTS.get(code, f"alert {code}"))

    def note_alert(self, text: str) -> str:
        """Adds an alert by its text; returns the text."""
        if len(self.alerts) < _MOST_ALERTS:
            self.alerts.append(text)
        return text

    @property
    def facts(self) -> dict[str, Value]:
        """The known facts, by columns of `flows` and `sessions`."""
        server, client = self.server_certificate, self.client_certificate
        return {
            "tls_version": self.version_text or None,
            "tls_cipher": suite_name(self.suite_code) if self.suite_code >= 0 else None,
            "tls_server_name": self.server_name or None,
            "tls_alpn": self.protocols or None,
            "tls_subject": server and server.subject,
            "tls_issuer": server and server.issuer,
            "tls_not_before_ns": server and server.not_before_ns,
            "tls_not_after_ns": server and server.not_after_ns,
            "tls_client_subject": client and client.subject,
            "tls_alerts": self.alerts or None,
            "ja3": self.ja3 or None,
            "ja4": self.ja4 or None,
        }

    def _read_client_hello(self, body: bytes) -> None:
        hello = read_client_hello(body)
        if hello is None:
            return
        self.client_random = hello.random
        self.server_name, self.protocols = hello.server_name, hello.protocols
        self.ja3, self.ja4 = hello.ja3, hello.ja4
        self.offers_early_data = EARLY_DATA in hello.extensions

    def _read_server_hello(self, body: bytes) -> None:
        self.server_random = body[2:34]
        self.version = int.from_bytes(body[:2], "big")
        at = 35 + (body[34] if len(body) > 34 else 0)  # after the session id
        self.suite_code = int.from_bytes(body[at : at + 2], "big")
        found = extensions(body[at + 3 :])
        self.encrypts_then_macs = _ENCRYPT_THEN_MAC in found
        if SUPPORTED_VERSIONS in found:
            self.version = int.from_bytes(found[SUPPORTED_VERSIONS][:2], "big")


def suite_name(code: int) -> str:
    """The name of a cipher suite (IANA), or its code in hexadecimal if it has none."""
    known = SUITES.get(code)
    if known:
        return known.name
    # The import takes 0.2 s: only rare suites need it.
    by_code = imported("dpkt.ssl_ciphersuites", "dissect", "dpkt").BY_CODE
    return by_code[code].name if code in by_code else f"{code:#06x}"
