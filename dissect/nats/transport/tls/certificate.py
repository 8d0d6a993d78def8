"""Subject, issuer and dates of the certificates in a TLS handshake, read by the package `cryptography`.

In TLS 1.2 certificates are sent in the clear; in TLS 1.3 they can be read only with the connection's secrets.
"""

from __future__ import annotations

import warnings
from datetime import datetime, timezone
from typing import NamedTuple

from ...number_formats import moment_text
from ...secrets.key_log import decryption_lack

# The largest time in a column, in the year 2262. Some certificates are valid until 9999.
_LAST_NS = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Certificate(NamedTuple):
    """The facts of a certificate: its subject and issuer as in RFC 4514, and the bounds of its validity in
    nanoseconds since the epoch."""

    subject: str
    issuer: str
    not_before_ns: int
    not_after_ns: int

    def flaw(self, ts_ns: int) -> str:
        """The reason why the certificate is not valid at a time; empty if it is valid."""
        if ts_ns > self.not_after_ns:
            return f"expired at {moment_text(self.not_after_ns)[:19]} UTC: {self.subject}"
        if ts_ns < self.not_before_ns:
            return f"valid from {moment_text(self.not_before_ns)[:19]} UTC on: {self.subject}"
        return ""


def read_certificate(der: bytes) -> Certificate | None:
    """Parses a certificate; None: it cannot be read, or `cryptography` is not installed."""
    if decryption_lack():
        return None
    from cryptography import x509

    try:
        with warnings.catch_warnings():  # about unusual certificates, which are not ours
            warnings.simplefilter("ignore")
            found = x509.load_der_x509_certificate(der)
            return Certificate(
                found.subject.rfc4514_string(),
                found.issuer.rfc4514_string(),
                _time_ns(found.not_valid_before_utc),
                _time_ns(found.not_valid_after_utc),
            )
    except (TypeError, ValueError, x509.InvalidVersion):  # found by fuzzing
        return None


def first_certificate(body: bytes, is_13: bool) -> bytes:
    """The sender's own certificate in a Certificate message (RFC 5246, 7.4.2; RFC 8446, 4.4.2); empty: it has
    none."""
    # It follows the context (only TLS 1.3) and the size of the list.
    at = 3 + (1 + body[0] if is_13 and body else 0)
    size = int.from_bytes(body[at : at + 3], "big")
    found = body[at + 3 : at + 3 + size]
    return found if len(found) == size else b""


def _time_ns(moment: datetime) -> int:
    passed = moment - _EPOCH
    return max(min((passed.days * 86_400 + passed.seconds) * 10**9, _LAST_NS), -_LAST_NS)
