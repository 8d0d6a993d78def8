"""Decryption of TLS 1.2 and 1.3 records with secrets from a key log.

Key schedules are those of RFC 5246 (6.3) and RFC 8446 (7.1 to 7.3); ciphers come from the package
`cryptography` (extra `tls`). `Opener` opens the records of one direction and one generation of keys.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, Protocol

VERSION_13 = 0x0304

_IV_BYTES, _TAG_BYTES, _EXPLICIT_BYTES = 12, 16, 8


class Suite(NamedTuple):
    """A cipher suite: `cipher` is `gcm`, `chacha20`, `ccm`, `ccm8` or `cbc`; `hash` is the hash function of
    the key schedule, `mac` the hash function of a CBC suite's MAC."""

    name: str
    cipher: str
    key_bytes: int
    hash: str
    mac: str = ""


_KINDS = (
    ("AES_128_GCM_SHA256", "gcm", 16, "sha256", ""),
    ("AES_256_GCM_SHA384", "gcm", 32, "sha384", ""),
    ("CHACHA20_POLY1305_SHA256", "chacha20", 32, "sha256", ""),
    ("AES_128_CBC_SHA", "cbc", 16, "sha256", "sha1"),
    ("AES_256_CBC_SHA", "cbc", 32, "sha256", "sha1"),
    ("AES_128_CBC_SHA256", "cbc", 16, "sha256", "sha256"),
    ("AES_256_CBC_SHA256", "cbc", 32, "sha256", "sha256"),
    ("AES_256_CBC_SHA384", "cbc", 32, "sha384", "sha384"),
    ("AES_128_CCM", "ccm", 16, "sha256", ""),
    ("AES_256_CCM", "ccm", 32, "sha256", ""),
    ("AES_128_CCM_8", "ccm8", 16, "sha256", ""),
    ("AES_256_CCM_8", "ccm8", 32, "sha256", ""),
)
"""For TLS 1.2: the part of a suite's name after the key exchange, and the other fields of `Suite`."""

# fmt: off
_CODES = {
    "RSA": (0x009C, 0x009D, 0, 0x002F, 0x0035, 0x003C, 0x003D, 0, 0xC09C, 0xC09D, 0xC0A0, 0xC0A1),
    "DHE_RSA": (0x009E, 0x009F, 0xCCAA, 0x0033, 0x0039, 0x0067, 0x006B, 0,
                0xC09E, 0xC09F, 0xC0A2, 0xC0A3),
    "ECDHE_RSA": (0xC02F, 0xC030, 0xCCA8, 0xC013, 0xC014, 0xC027, 0, 0xC028),
    "ECDHE_ECDSA": (0xC02B, 0xC02C, 0xCCA9, 0xC009, 0xC00A, 0xC023, 0, 0xC024,
                    0xC0AC, 0xC0AD, 0xC0AE, 0xC0AF),
    "PSK": (0x00A8, 0x00A9, 0xCCAB, 0x008C, 0x008D, 0x00AE, 0, 0x00AF,
            0xC0A4, 0xC0A5, 0xC0A8, 0xC0A9),
    "DHE_PSK": (0x00AA, 0x00AB, 0xCCAD, 0x0090, 0x0091, 0x00B2, 0, 0x00B3, 0xC0A6, 0xC0A7),
    "RSA_PSK": (0x00AC, 0x00AD, 0xCCAE, 0x0094, 0x0095, 0x00B6, 0, 0x00B7),
    "ECDHE_PSK": (0xD001, 0xD002, 0xCCAC, 0xC035, 0xC036, 0xC037, 0, 0xC038),
}
# fmt: on
"""Key exchange -> the codes of its suites, in the order of `_KINDS`; 0: there is no such suite."""


def _suites() -> dict[int, Suite]:
    found = {
        0x1301: Suite("TLS_AES_128_GCM_SHA256", "gcm", 16, "sha256"),
        0x1302: Suite("TLS_AES_256_GCM_SHA384", "gcm", 32, "sha384"),
        0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", "chacha20", 32, "sha256"),
        0x1304: Suite("TLS_AES_128_CCM_SHA256", "ccm", 16, "sha256"),
        0x1305: Suite("TLS_AES_128_CCM_8_SHA256", "ccm8", 16, "sha256"),
    }
    for exchange, codes in _CODES.items():
        for code, (name, cipher, key_bytes, hash_name, mac) in zip(codes, _KINDS):
            if code:
                name = f"TLS_{exchange}_WITH_{name}"
                found[code] = Suite(name, cipher, key_bytes, hash_name, mac)
    return found


SUITES = _suites()
"""The cipher suites whose records can be opened, by code (IANA, TLS Cipher Suites)."""


class Opener(Protocol):
    """Opens records. `open` returns the content type and the plaintext of a record; None: the sequence
    number, the keys or the bytes are wrong."""

    def open(self, sequence: int, head: bytes, payload: bytes) -> tuple[int, bytes] | None: ...


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes: ...


class _Opener13:
    """RFC 8446, 5.2: the head is the associated data, and the content type is the last byte that is not 0."""

    def __init__(self, aead: _Aead, iv: bytes) -> None:
        self._decrypt, self._iv = aead.decrypt, int.from_bytes(iv, "big")

    def open(self, sequence: int, head: bytes, payload: bytes) -> tuple[int, bytes] | None:
        nonce = (self._iv ^ sequence).to_bytes(_IV_BYTES, "big")
        try:
            plain = self._decrypt(nonce, payload, head)
        except _refusals():
            return None
        if plain and not plain[-1]:
            plain = plain.rstrip(b"\0")
        return (plain[-1], plain[:-1]) if plain else None


class _Opener12:
    """RFC 5288 and 6655 (with an explicit nonce), and RFC 7905 (without one)."""

    def __init__(self, aead: _Aead, iv: bytes, explicit: bool, tag_bytes: int) -> None:
        self._aead, self._iv = aead, iv
        self._explicit, self._tag_bytes = explicit, tag_bytes

    def open(self, sequence: int, head: bytes, payload: bytes) -> tuple[int, bytes] | None:
        if self._explicit:
            nonce, payload = self._iv + payload[:_EXPLICIT_BYTES], payload[_EXPLICIT_BYTES:]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ sequence).to_bytes(_IV_BYTES, "big")
        size = len(payload) - self._tag_bytes
        if size < 0:
            return None
        associated = sequence.to_bytes(8, "big") + head[:3] + size.to_bytes(2, "big")
        plain = _opened(self._aead, nonce, payload, associated)
        return None if plain is None else (head[0], plain)


class _OpenerCbc:
    """RFC 5246, 6.2.3.2, and RFC 7366 (encrypt-then-MAC). The result is None, whatever is wrong."""

    def __init__(self, key: bytes, mac_key: bytes, mac: str, mac_first: bool) -> None:
        self._key, self._mac_key, self._mac, self._mac_first = key, mac_key, mac, mac_first
        self._mac_bytes = hashlib.new(mac).digest_size

    def open(self, sequence: int, head: bytes, payload: bytes) -> tuple[int, bytes] | None:
        number = sequence.to_bytes(8, "big")
        if not self._mac_first:
            payload, tag = payload[: -self._mac_bytes], payload[-self._mac_bytes :]
            if not self._is_tag(tag, number + head[:3], payload):
                return None
        if len(payload) < 32 or len(payload) % 16:
            return None
        plain = self._decrypted(payload)
        padding = plain[-1] + 1
        if plain[-padding:] != bytes([padding - 1]) * padding:
            return None
        plain = plain[:-padding]
        if self._mac_first:
            plain, tag = plain[: -self._mac_bytes], plain[-self._mac_bytes :]
            if not self._is_tag(tag, number + head[:3], plain):
                return None
        return head[0], plain

    def _is_tag(self, tag: bytes, before: bytes, data: bytes) -> bool:
        message = before + len(data).to_bytes(2, "big") + data
        return hmac.compare_digest(tag, hmac.digest(self._mac_key, message, self._mac))

    def _decrypted(self, payload: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        cipher = Cipher(algorithms.AES(self._key), modes.CBC(payload[:16])).decryptor()
        return cipher.update(payload[16:]) + cipher.finalize()


def opener_13(suite: Suite, secret: bytes) -> Opener:
    """The opener of the records that a traffic secret protects."""
    key = expand_label(secret, "key", suite.key_bytes, suite.hash)
    iv = expand_label(secret, "iv", _IV_BYTES, suite.hash)
    return _Opener13(_aead(suite, key), iv)


def next_secret(secret: bytes, suite: Suite) -> bytes:
    """The traffic secret after a KeyUpdate (RFC 8446, 7.2)."""
    return expand_label(secret, "traffic upd", len(secret), suite.hash)


def opener_12(
    suite: Suite, master: bytes, randoms: tuple[bytes, bytes], of_client: bool, mac_first: bool
) -> Opener:
    """The opener of the records of one direction. `randoms` has the client's and the server's random."""
    client, server = randoms
    mac_bytes = hashlib.new(suite.mac).digest_size if suite.mac else 0
    iv_bytes = {"cbc": 0, "chacha20": _IV_BYTES}.get(suite.cipher, 4)
    sizes = [mac_bytes, mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes]
    block = expand_prf(master, b"key expansion" + server + client, sum(sizes), suite.hash)
    parts = []
    for size in sizes:
        parts.append(block[:size])
        block = block[size:]
    mac_key, key, iv = parts[0::2] if of_client else parts[1::2]
    if suite.cipher == "cbc":
        return _OpenerCbc(key, mac_key, suite.mac, mac_first)
    explicit = suite.cipher != "chacha20"
    tag_bytes = 8 if suite.cipher == "ccm8" else _TAG_BYTES
    return _Opener12(_aead(suite, key), iv, explicit, tag_bytes)


def expand_label(secret: bytes, label: str, size: int, hash_name: str) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446, 7.1)."""
    name = b"tls13 " + label.encode()
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    out = block = b""
    for number in range(1, 256):
        if len(out) >= size:
            break
        block = hmac.digest(secret, block + info + bytes([number]), hash_name)
        out += block
    return out[:size]


def expand_prf(secret: bytes, seed: bytes, size: int, hash_name: str) -> bytes:
    """The pseudorandom function of TLS 1.2 (RFC 5246, 5); `seed` includes the label."""
    out, chain = b"", seed
    while len(out) < size:
        chain = hmac.digest(secret, chain, hash_name)
        out += hmac.digest(secret, chain + seed, hash_name)
    return out[:size]


def _aead(suite: Suite, key: bytes) -> _Aead:
    from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

    made: dict[str, Callable[[], _Aead]] = {
        "gcm": lambda: AESGCM(key),
        "chacha20": lambda: ChaCha20Poly1305(key),
        "ccm": lambda: AESCCM(key),
        "ccm8": lambda: AESCCM(key, tag_length=8),
    }
    return made[suite.cipher]()


def _opened(aead: _Aead, nonce: bytes, data: bytes, associated: bytes) -> bytes | None:
    try:
        return aead.decrypt(nonce, data, associated)
    except _refusals():
        return None


@cache
def _refusals() -> tuple[type[Exception], ...]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag, ValueError  # ValueError: too short, or a nonce of the wrong size
