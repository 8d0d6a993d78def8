"""Openers against records that the library sealed, for suites that no sample has; wrong bytes give None."""

from __future__ import annotations

import hmac
import os

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from dissect.nats.transport.tls.crypto import (
    SUITES,
    Suite,
    expand_label,
    expand_prf,
    next_secret,
    opener_12,
    opener_13,
)

SECRET = bytes(range(32))
RANDOMS = (b"c" * 32, b"s" * 32)
HEAD = b"\x17\x03\x03\x00\x00"


def test_the_key_schedule_of_rfc_8448() -> None:
    """The server's handshake traffic secret of section 3, and its keys."""
    secret = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
    assert expand_label(secret, "key", 16, "sha256").hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert expand_label(secret, "iv", 12, "sha256").hex() == "5d313eb2671276ee13000b30"


def aead(suite: Suite, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if suite.cipher == "gcm":
        return AESGCM(key)
    if suite.cipher == "chacha20":
        return ChaCha20Poly1305(key)
    return AESCCM(key, tag_length=8 if suite.cipher == "ccm8" else 16)


@pytest.mark.parametrize("code", [0x1301, 0x1302, 0x1303, 0x1304, 0x1305])
def test_records_of_tls_13(code: int) -> None:
    suite = SUITES[code]
    secret = next_secret(SECRET, suite)
    key = expand_label(secret, "key", suite.key_bytes, suite.hash)
    iv = int.from_bytes(expand_label(secret, "iv", 12, suite.hash), "big")
    sealed = aead(suite, key).encrypt((iv ^ 7).to_bytes(12, "big"), b"PING\r\n\x17\0\0", HEAD)
    opener = opener_13(suite, secret)
    assert opener.open(7, HEAD, sealed) == (23, b"PING\r\n")
    assert opener.open(8, HEAD, sealed) is None
    assert opener.open(7, HEAD, sealed[:-1]) is None
    assert opener.open(7, HEAD, b"") is None


def test_a_record_of_nothing_but_padding() -> None:
    suite = SUITES[0x1301]
    key = expand_label(SECRET, "key", 16, suite.hash)
    iv = expand_label(SECRET, "iv", 12, suite.hash)
    sealed = AESGCM(key).encrypt(iv, bytes(5), HEAD)
    assert opener_13(suite, SECRET).open(0, HEAD, sealed) is None


@pytest.mark.parametrize("code", [0xC02B, 0x009D, 0xCCAA, 0xC0AC, 0xC0AF])
@pytest.mark.parametrize("of_client", [True, False])
def test_aead_records_of_tls_12(code: int, of_client: bool) -> None:
    suite = SUITES[code]
    iv_bytes = 12 if suite.cipher == "chacha20" else 4
    size = 2 * (suite.key_bytes + iv_bytes)
    block = expand_prf(SECRET, b"key expansion" + RANDOMS[1] + RANDOMS[0], size, suite.hash)
    half = 0 if of_client else 1
    key = block[half * suite.key_bytes :][: suite.key_bytes]
    iv = block[2 * suite.key_bytes + half * iv_bytes :][:iv_bytes]
    explicit = b"" if suite.cipher == "chacha20" else os.urandom(8)
    nonce = iv + explicit if explicit else (int.from_bytes(iv, "big") ^ 3).to_bytes(12, "big")
    associated = (3).to_bytes(8, "big") + HEAD[:3] + (6).to_bytes(2, "big")
    sealed = explicit + aead(suite, key).encrypt(nonce, b"PING\r\n", associated)
    opener = opener_12(suite, SECRET, RANDOMS, of_client, True)
    assert opener.open(3, HEAD, sealed) == (23, b"PING\r\n")
    assert opener.open(4, HEAD, sealed) is None
    assert opener.open(3, HEAD, sealed[:10]) is None


@pytest.mark.parametrize("code", [0x002F, 0xC014, 0xC027, 0xC028])
@pytest.mark.parametrize("mac_first", [True, False])
def test_cbc_records_of_tls_12(code: int, mac_first: bool) -> None:
    suite = SUITES[code]
    mac_bytes = {"sha1": 20, "sha256": 32, "sha384": 48}[suite.mac]
    size = 2 * (suite.key_bytes + mac_bytes)
    block = expand_prf(SECRET, b"key expansion" + RANDOMS[1] + RANDOMS[0], size, suite.hash)
    mac_key, key = block[:mac_bytes], block[2 * mac_bytes :][: suite.key_bytes]

    def tag(data: bytes) -> bytes:
        message = (5).to_bytes(8, "big") + HEAD[:3] + len(data).to_bytes(2, "big") + data
        return hmac.digest(mac_key, message, suite.mac)

    plain = b"PING\r\n" + (tag(b"PING\r\n") if mac_first else b"")
    padding = 16 - len(plain) % 16
    plain += bytes([padding - 1]) * padding
    iv = os.urandom(16)
    cipher = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    sealed = iv + cipher.update(plain) + cipher.finalize()
    if not mac_first:
        sealed += tag(sealed)
    opener = opener_12(suite, SECRET, RANDOMS, True, mac_first)
    assert opener.open(5, HEAD, sealed) == (23, b"PING\r\n")
    wrong = [
        opener.open(6, HEAD, sealed),
        opener.open(5, HEAD, sealed[:-1] + bytes([sealed[-1] ^ 1])),
        opener.open(5, HEAD, sealed[:-16]),
        opener.open(5, HEAD, sealed[:20]),
        opener.open(5, HEAD, b""),
    ]
    assert wrong == [None] * 5
