"""Certificates of the tests' own: an authority, and what it signs, made when asked for.

    authority = Authority(tmp_path)
    paths = authority.issue("server", "localhost", "127.0.0.1")   # paths.cert, paths.key
    TLS(ca_file=authority.cert)

All are PEM files in the folder. Keys are P-256, which are quick to make.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Paths:
    """The files of one certificate."""

    cert: Path
    key: Path

    @property
    def config(self) -> str:
        """The lines of a server's `tls` section that name them."""
        return f'cert_file: "{self.cert}", key_file: "{self.key}"'


class Authority:
    """Signs certificates. `name` keeps the files of several apart in one folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tests {name}")])
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._key_id = key_id
        builder = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(key_id, critical=False)
        )
        self.cert = folder / f"{name}.pem"
        self.cert.write_bytes(self._sign(builder))

    def issue(
        self,
        name: str,
        *hosts: str,
        days: int = 1,
        password: bytes = b"",
    ) -> Paths:
        """A certificate for these host names and addresses, good for both sides of a connection.

        It ends in `days` days; a negative number gives one that has expired. `password` encrypts the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(subject, key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id),
                critical=False,
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        paths = Paths(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        paths.cert.write_bytes(self._sign(builder))
        sealed = BestAvailableEncryption(password) if password else NoEncryption()
        paths.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
        return paths

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + min(0, days) * DAY - DAY)
            .not_valid_after(now + days * DAY)
        )

    def _sign(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
