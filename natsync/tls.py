"""TLS: the options, the context made from them, and errors explained in one line.

The certificate and the host name of the server are verified unless `verify` is off; TLS 1.2 is the
minimum. Files are read at every connect, so that renewed ones are used. No error text and no `repr`
shows the password of a key. `ssl` is imported where it is used: otherwise it would take a fifth of the
time of `import natsync`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ._checks import check_kind, check_text
from ._late import late_import
from .errors import OptionError
from .protocol.structs import Struct, field

if TYPE_CHECKING:
    import ssl

__all__ = ["TLS", "TLSState", "explain", "state_of"]

# Not compiled here: most programs need neither, and `re` caches what it compiles.
_ALERT = r"(?:SSLV3|TLSV1|TLSV13)_ALERT_(\w+)"
# OpenSSL's reasons for bytes that are not a TLS record.
_NOT_TLS = {"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG"}
# The text that Python puts around OpenSSL's own, to be removed where an error has no reason.
_PLACE = r"^\[\w+\] | \(_ssl\.c:\d+\)$"
# The remedies of alerts. TLS 1.3 has its own alert for a missing client certificate, TLS 1.2 has none.
_REMEDIES = {
    "CERTIFICATE_REQUIRED": ": it wants a client certificate, cert_file",
    "BAD_CERTIFICATE": ": it may want a client certificate, or another one",
    "HANDSHAKE_FAILURE": ": it may want a client certificate, or another one",
    "UNKNOWN_CA": ": it does not know the CA of cert_file",
    "CERTIFICATE_EXPIRED": ": renew that in cert_file",
}
_UNKNOWN_CA = {18, 19, 20, 21}  # X509_V_ERR_..., in x509_vfy.h of OpenSSL
_OTHER_NAME = {62, 64}


class TLSState(Struct, frozen=True):
    """TLS of an open connection: `version` such as `TLSv1.3`, the name of the `cipher`, and the `server_name`
    that the certificate must have.

    `verified` says whether the certificate and its name were verified. `certificate` is that of the server
    as `ssl.SSLSocket.getpeercert` returns it, with `subject`, `issuer`, `notAfter` and so on; it is empty
    if it was not verified. `certificate_der` has it in any case, as bytes for other libraries.
    """

    version: str
    cipher: str
    server_name: str
    verified: bool
    certificate: Mapping[str, object] = field(repr=False)
    certificate_der: bytes = field(repr=False)


class TLS(Struct, frozen=True, kw_only=True):
    """The options of TLS. Files are PEM; `key_file` may be omitted if `cert_file` holds the key, too.

    `ca_file` replaces the CA certificates of the system, `hostname` the name that the certificate of
    the server must have. `handshake_first` is for servers that expect TLS before they send INFO.
    `keylog_file` gets the secrets of every connection, in NSS key log format: whoever reads it can
    decrypt a capture of the traffic (`nats-dissect --keylog`). A `context` is used unchanged, and
    replaces files and `verify`.
    """

    ca_file: str | os.PathLike[str] = ""
    cert_file: str | os.PathLike[str] = ""
    key_file: str | os.PathLike[str] = ""
    key_password: str | bytes = field(default="", repr=False)
    hostname: str = ""
    verify: bool = True
    context: ssl.SSLContext | None = None
    handshake_first: bool = False
    keylog_file: str | os.PathLike[str] = ""

    def __post_init__(self) -> None:
        for name in ("ca_file", "cert_file", "key_file", "keylog_file"):
            if not isinstance(getattr(self, name), (str, os.PathLike)):
                raise TypeError(f"{name} must be a path, not {type(getattr(self, name)).__name__}")
        check_kind(bool, verify=self.verify, handshake_first=self.handshake_first)
        check_text(hostname=self.hostname)
        if not isinstance(self.key_password, (str, bytes)):
            kind = type(self.key_password).__name__
            raise TypeError(f"key_password must be str or bytes, not {kind}")
        if self.context is not None:
            with late_import:
                import ssl
            check_kind(ssl.SSLContext, context=self.context)
        files = self.ca_file or self.cert_file or self.key_file or self.key_password
        if self.context and (files or self.keylog_file or not self.verify):
            known = "ca_file, cert_file, key_file, keylog_file and verify"
            raise OptionError("context", f"excludes {known}")
        for name in ("key_file", "key_password"):
            if getattr(self, name) and not self.cert_file:
                raise OptionError(name, "needs cert_file")
        if self.ca_file and not self.verify:
            raise OptionError("ca_file", "is of no use without verify")

    def name_of(self, host: str) -> str:
        """Returns the name that the certificate of `host` must have. Raises OptionError if no certificate
        can have it."""
        # No certificate has the scope of an IPv6 address, or the final dot of a fully qualified name.
        name = self.hostname or host.partition("%")[0].removesuffix(".")
        try:
            wire = name.encode("idna")
        except UnicodeError:  # an empty label, one of over 63 bytes
            wire = b""
        if not wire or wire.startswith(b".") or b"\0" in wire:
            raise OptionError("hostname", f"{name!r} is not a host name")
        return name

    def make_context(self) -> ssl.SSLContext:
        """Returns a context for these options. Reads the files. Raises OptionError, which names the
        file, and ReentrantCallError if it interrupts an import of `ssl` on the same thread."""
        if self.context:
            return self.context
        with late_import:
            import ssl
            from ssl import get_protocol_name  # noqa: F401  # its last name: fails on half a module
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Renegotiation can make a write wait for a read; NATS servers never renegotiate.
        context.options |= ssl.OP_NO_RENEGOTIATION
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_file:
            _check_pem("ca_file", self.ca_file, b"CERTIFICATE-----")
            try:
                context.load_verify_locations(self.ca_file)
            except ssl.SSLError as error:
                raise _unusable("ca_file", self.ca_file, error) from error
        else:
            context.load_default_certs()
        if self.cert_file:
            self._load_certificate(context)
        if self.keylog_file:
            try:
                context.keylog_filename = os.fspath(self.keylog_file)
            except OSError as error:
                reason = f"cannot write {os.fspath(self.keylog_file)!r}: {error.strerror}"
                raise OptionError("keylog_file", reason) from error
        return context

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        import ssl

        key_option = "key_file" if self.key_file else "cert_file"
        key_file = self.key_file or self.cert_file
        _check_pem("cert_file", self.cert_file, b"CERTIFICATE-----")
        _check_pem(key_option, key_file, b"PRIVATE KEY-----")
        asked = False

        def password() -> str | bytes:  # without this function, OpenSSL asks on the terminal
            nonlocal asked
            asked = True
            return self.key_password

        try:
            context.load_cert_chain(self.cert_file, key_file, password)
        except (ssl.SSLError, ValueError) as error:  # ValueError: a password of over 1024 bytes
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                reason = f"{os.fspath(key_file)!r} is not the key of cert_file"
                raise OptionError(key_option, reason) from error
            if asked and self.key_password:
                reason = f"does not open {os.fspath(key_file)!r}"
                raise OptionError("key_password", reason) from error
            if asked:
                reason = f"{os.fspath(key_file)!r} is encrypted, and key_password is not given"
                raise OptionError(key_option, reason) from error
            raise _unusable(key_option, key_file, error) from error


def state_of(secured: ssl.SSLSocket) -> TLSState:
    """Returns the state of TLS after the handshake."""
    import ssl

    context, cipher = secured.context, secured.cipher()
    return TLSState(
        secured.version() or "",
        cipher[0] if cipher else "",
        secured.server_hostname or "",
        context.verify_mode is not ssl.CERT_NONE and context.check_hostname,
        secured.getpeercert() or {},
        secured.getpeercert(binary_form=True) or b"",
    )


def explain(error: ssl.SSLError, server: str) -> OSError:
    """Returns `error` of a connection to `server` as an OSError whose `strerror` explains it in one line."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        if error.verify_code in _UNKNOWN_CA:
            why += "; ca_file must name the CA that issued it"
        elif error.verify_code in _OTHER_NAME:
            why += "; if it is the right one, set hostname to a name in it"
        return OSError(errno.EPROTO, f"the certificate of {server} is not accepted: {why}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return OSError(errno.ECONNRESET, "the server closed the connection")
    reason: str = getattr(error, "reason", None) or ""  # errors that Python itself makes have none
    if reason in _NOT_TLS:
        return OSError(errno.EPROTO, "the server does not talk TLS, or a version too old")
    if found := re.fullmatch(_ALERT, reason):
        alert, remedy = found[1].lower().replace("_", " "), _REMEDIES.get(found[1], "")
        return OSError(errno.EPROTO, f"the server refused TLS ({alert}){remedy}")
    return OSError(errno.EPROTO, f"TLS failed: {_words(error)}")


def _check_pem(option: str, path: str | os.PathLike[str], wanted: bytes) -> None:
    """Raises OptionError unless the file can be read and contains `wanted`, the end of a PEM header."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or "not a file name"
        raise OptionError(option, f"{os.fspath(path)!r}: {reason}") from error
    if wanted not in content:
        kind = wanted.rstrip(b"-").decode().lower()
        raise OptionError(option, f"{os.fspath(path)!r} holds no {kind} in PEM form")


def _unusable(option: str, path: str | os.PathLike[str], error: Exception) -> OptionError:
    return OptionError(option, f"{os.fspath(path)!r} cannot be used: {_words(error)}")


def _words(error: Exception) -> str:
    reason: str = getattr(error, "reason", None) or ""
    return reason.lower().replace("_", " ") or re.sub(_PLACE, "", str(error))
