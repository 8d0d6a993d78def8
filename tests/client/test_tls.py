"""TLS options: the context they make, and one clear line for each file that cannot be used."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from natsync.errors import OptionError
from natsync.tls import TLS, explain

from tests.support.certificates import Authority, Paths

SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority(folder)
    authority.issue("one", "localhost")
    authority.issue("two", "localhost")
    authority.issue("sealed", "localhost", password=SECRET.encode())
    both = (folder / "one.pem").read_bytes() + (folder / "one-key.pem").read_bytes()
    (folder / "both.pem").write_bytes(both)
    (folder / "empty.pem").write_bytes(b"")
    (folder / "broken.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    )
    (folder / "broken-key.pem").write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n")
    return folder


def test_everything_is_checked_by_default() -> None:
    context = TLS().make_context()
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_without_verify_nothing_is_checked() -> None:
    context = TLS(verify=False).make_context()
    assert context.verify_mode is ssl.CERT_NONE and not context.check_hostname


def test_an_authority_replaces_those_of_the_system(folder: Path) -> None:
    context = TLS(ca_file=folder / "ca.pem").make_context()
    assert [dict(*cert["subject"])["commonName"] for cert in context.get_ca_certs()] == ["tests ca"]


def test_certificates_and_keys(folder: Path) -> None:
    one, sealed = Paths(folder / "one.pem", folder / "one-key.pem"), str(folder / "sealed")
    TLS(cert_file=one.cert, key_file=one.key).make_context()
    TLS(cert_file=str(folder / "both.pem")).make_context()
    for password in (SECRET, SECRET.encode()):
        options = TLS(
            cert_file=f"{sealed}.pem", key_file=f"{sealed}-key.pem", key_password=password
        )
        options.make_context()
        assert SECRET not in repr(options)


def test_a_ready_context_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert TLS(context=context, handshake_first=True, hostname="h").make_context() is context


@pytest.mark.parametrize(
    ("files", "option", "reason"),
    [
        ({"ca_file": "none.pem"}, "ca_file", "No such file or directory"),
        ({"ca_file": ""}, "ca_file", "Is a directory"),
        ({"ca_file": "a\0b"}, "ca_file", "not a file name"),
        ({"ca_file": "empty.pem"}, "ca_file", "holds no certificate in PEM form"),
        ({"ca_file": "broken.pem"}, "ca_file", "cannot be used"),
        ({"cert_file": "none.pem"}, "cert_file", "No such file or directory"),
        ({"cert_file": "one-key.pem"}, "cert_file", "holds no certificate in PEM form"),
        ({"cert_file": "one.pem"}, "cert_file", "holds no private key in PEM form"),
        ({"cert_file": "one.pem", "key_file": "none"}, "key_file", "No such file or directory"),
        ({"cert_file": "one.pem", "key_file": "one.pem"}, "key_file", "holds no private key"),
        ({"cert_file": "one.pem", "key_file": "two-key.pem"}, "key_file", "is not the key of"),
        ({"cert_file": "one.pem", "key_file": "broken-key.pem"}, "key_file", "cannot be used"),
        ({"cert_file": "sealed.pem", "key_file": "sealed-key.pem"}, "key_file", "is encrypted"),
    ],
)
def test_files_that_cannot_be_used(
    folder: Path, files: dict[str, str], option: str, reason: str
) -> None:
    paths = {name: str(folder / file) if file != "a\0b" else file for name, file in files.items()}
    with pytest.raises(OptionError, match=reason) as caught:
        TLS(**paths).make_context()  # type: ignore[arg-type]  # files only
    assert caught.value.option == option
    assert repr(paths[option]) in caught.value.reason
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("password", ["wrong", "w" * 2000])
def test_a_wrong_password_is_not_shown(folder: Path, password: str) -> None:
    options = TLS(
        cert_file=folder / "sealed.pem", key_file=folder / "sealed-key.pem", key_password=password
    )
    with pytest.raises(OptionError, match="does not open") as caught:
        options.make_context()
    assert caught.value.option == "key_password"
    assert password not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "option"),
    [
        (lambda context: TLS(context=context, ca_file="x"), "context"),
        (lambda context: TLS(context=context, verify=False), "context"),
        (lambda context: TLS(key_file="x"), "key_file"),
        (lambda context: TLS(key_password="x"), "key_password"),
        (lambda context: TLS(ca_file="x", verify=False), "ca_file"),
    ],
)
def test_what_does_not_go_together(make: Callable[[ssl.SSLContext], TLS], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        make(ssl.create_default_context())
    assert caught.value.option == option


def test_tls_refuses_values_of_a_wrong_type() -> None:
    with pytest.raises(TypeError, match="ca_file must be a path, not bytes"):
        TLS(ca_file=b"x")  # type: ignore[arg-type]  # wrong on purpose


def test_the_name_to_check() -> None:
    assert TLS().name_of("fe80::1%eth0") == "fe80::1"
    assert TLS().name_of("nats.example.") == "nats.example"
    assert TLS(hostname="inside").name_of("10.0.0.1") == "inside"


@pytest.mark.parametrize("hostname", [".", ".a", "a" * 64, "a..b", "a\0b"])
def test_names_that_no_certificate_has(hostname: str) -> None:
    with pytest.raises(OptionError, match="is not a host name"):
        TLS(hostname=hostname).name_of("localhost")


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "refused TLS (certificate required): it wants"),
        ("TLSV1_ALERT_UNKNOWN_CA", "(unknown ca): it does not know the CA of cert_file"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "(certificate expired): renew that in cert_file"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "the server refused TLS (protocol version)"),
        ("WRONG_VERSION_NUMBER", "the server does not talk TLS"),
        ("NO_CIPHERS_AVAILABLE", "TLS failed: no ciphers available"),
    ],
)
def test_errors_are_one_line(reason: str, text: str) -> None:
    error = ssl.SSLError(1, "[SSL] ... (_ssl.c:1000)")
    error.reason = reason
    explained = explain(error, "h")
    assert text in (explained.strerror or "")
    assert "_ssl.c" not in str(explained)


def test_an_error_without_a_reason_keeps_its_words() -> None:
    explained = explain(ssl.SSLError(1, "[SSL] ASN1 lib (_ssl.c:1006)"), "h")
    assert explained.strerror == "TLS failed: ASN1 lib"


def test_the_secrets_of_connections_may_be_logged(folder: Path) -> None:
    path = folder / "keys.log"
    context = TLS(keylog_file=path).make_context()
    assert context.keylog_filename == str(path)
    assert path.read_bytes() == b"" or path.read_bytes().startswith(b"#")
    with pytest.raises(OptionError, match="keylog_file.*No such file"):
        TLS(keylog_file=folder / "missing" / "keys.log").make_context()
    with pytest.raises(OptionError, match="excludes .*keylog_file"):
        TLS(keylog_file=path, context=context)
