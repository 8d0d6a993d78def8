"""Nkeys: the Ed25519 keys of NATS, which sign the nonce of a server.

A key as text is a prefix, 32 bytes and a CRC-16, encoded in base32 without padding
(github.com/nats-io/nkeys, strkey.go). Ed25519 comes from the package `cryptography`, an extra, which is
imported where it is used. No error text and no `repr` shows a seed.
"""

from __future__ import annotations

from binascii import crc_hqx  # nkeys use CRC-16/XMODEM: polynomial 0x1021, initial value 0
from typing import TYPE_CHECKING

from ._extras import is_missing, pip_install
from .errors import OptionError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KeyPair", "is_public_key"]


_SEED = 18 << 3  # five bits: the base32 digit S, with which all seeds begin
_USER = 20 << 3  # U
_KEY_BYTES = 32
_KINDS = {
    0: "an account",
    2 << 3: "a cluster",
    13 << 3: "a server",
    14 << 3: "an operator",
    23 << 3: "a curve key",
}


class KeyPair:
    """The key of a user, made from its seed (`SU...`).

    Raises OptionError about `option` for an invalid seed, or without the package `cryptography`.
    """

    def __init__(self, seed: str | bytes, option: str = "nkey") -> None:
        self._private = _private_key(_user_key(seed, option), option)
        public = self._private.public_key().public_bytes_raw()
        self.public_key = _encode(bytes([_USER]) + public)

    def sign(self, nonce: bytes) -> bytes:
        """Returns the signature of `nonce`: 64 bytes."""
        return self._private.sign(nonce)

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"


def is_public_key(key: str | bytes) -> bool:
    """Returns whether `key` is the public key of a user (`U...`)."""
    raw = _decode(key)
    return raw is not None and len(raw) == 1 + _KEY_BYTES and raw[0] == _USER


def _user_key(seed: str | bytes, option: str) -> bytes:
    raw = _decode(seed)
    if raw is None or len(raw) < 2 or raw[0] & 0xF8 != _SEED:
        public = raw is not None and len(raw) == 1 + _KEY_BYTES
        hint = ": this is a public key" if public else ", or is damaged"
        raise OptionError(option, f"is not an nkey seed{hint}")
    kind = (raw[0] & 7) << 5 | raw[1] >> 3  # the prefix of the public key, across two bytes
    if kind != _USER:
        raise OptionError(option, f"is the seed of {_KINDS.get(kind, 'something')}, not of a user")
    if len(raw) != 2 + _KEY_BYTES:
        raise OptionError(option, "is not an nkey seed: wrong length")
    return raw[2:]


def _decode(key: str | bytes) -> bytes | None:
    """Returns the bytes of `key` without its checksum; None if the key is invalid."""
    from base64 import b32decode  # imported late: few programs need it

    text = key if isinstance(key, bytes) else key.encode("ascii", "replace")
    text = text.strip()
    try:
        raw = b32decode(text + b"=" * (-len(text) % 8))
    except ValueError:
        return None
    ends = crc_hqx(raw[:-2], 0).to_bytes(2, "little")
    return raw[:-2] if len(raw) > 2 and raw[-2:] == ends else None


def _encode(raw: bytes) -> str:
    from base64 import b32encode

    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def _private_key(raw: bytes, option: str) -> Ed25519PrivateKey:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        broken = not is_missing(error, "cryptography.hazmat.primitives.asymmetric.ed25519")
        why_not = f", which cannot be imported: {error}; " if broken else ": "
        needs = f"needs the package cryptography{why_not}{pip_install('nkeys')}"
        raise OptionError(option, needs) from error
    return ed25519.Ed25519PrivateKey.from_private_bytes(raw)
