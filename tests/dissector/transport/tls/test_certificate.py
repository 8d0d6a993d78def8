"""Certificates: their facts, when they hold, and bytes that are none."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissect.nats.errors import MissingLibrary
from dissect.nats.transport.tls import certificate as tls_certificate
from dissect.nats.transport.tls.certificate import (
    Certificate,
    first_certificate,
    read_certificate,
)

from tests.support.certificates import Authority

SECOND = 10**9


@pytest.fixture(scope="module")
def der(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    return ssl.PEM_cert_to_DER_cert(authority.issue("server", "localhost").cert.read_text())


def test_a_certificate_has_subject_issuer_and_validity(der: bytes) -> None:
    found = read_certificate(der)
    assert found and (found.subject, found.issuer) == ("CN=server", "CN=tests ca")
    assert found.not_after_ns - found.not_before_ns == 2 * 86_400 * SECOND


def test_when_it_is_valid() -> None:
    found = Certificate("CN=a", "CN=b", 1_000 * SECOND, 2_000 * SECOND)
    assert found.flaw(1_500 * SECOND) == ""
    assert found.flaw(2_001 * SECOND) == "expired at 1970-01-01 00:33:20 UTC: CN=a"
    assert found.flaw(999 * SECOND) == "valid from 1970-01-01 00:16:40 UTC on: CN=a"


def test_the_first_of_a_message() -> None:
    one = b"\0\0\3abc"
    assert first_certificate(b"\0\0\6" + one, False) == b"abc"
    assert first_certificate(b"\2xy\0\0\6" + one, True) == b"abc"
    assert first_certificate(b"\0\0\6\0\0\4abc", False) == b""
    assert first_certificate(b"", True) == b""


def test_without_the_library_nothing_is_known(der: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lack = MissingLibrary("cryptography", "tls")
    monkeypatch.setattr(tls_certificate, "decryption_lack", lambda: lack)
    assert read_certificate(der) is None


def test_a_name_of_a_wrong_type(der: bytes) -> None:
    """`cryptography` raises TypeError for it."""
    assert der.count(b"\x0c\x08tests ca") == 1
    assert read_certificate(der.replace(b"\x0c\x08tests ca", b"\x03\x08\0ests ca")) is None


def test_dates_that_no_column_holds(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = authority.issue("long", days=365 * 2_000).cert
    found = read_certificate(ssl.PEM_cert_to_DER_cert(path.read_text()))
    assert found and found.not_after_ns == 2**63 - 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 255)), max_size=4))
def test_wrong_bytes_are_taken(der: bytes, places: list[tuple[int, int]]) -> None:
    body = bytearray(der)
    for at, byte in places:
        body[at % len(body)] = byte
    found = read_certificate(bytes(body))
    assert found is None or -(2**63) < found.not_after_ns < 2**63
