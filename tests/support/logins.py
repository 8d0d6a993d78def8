"""Keys and credentials for tests. They open nothing but servers that the tests start.

An operator, an account and users of it, each key made from 32 equal bytes, and the JWTs they sign
(github.com/nats-io/jwt, version 2), so that a server can be configured to believe them.
"""

from __future__ import annotations

import json
from base64 import b32decode, b32encode, urlsafe_b64encode
from binascii import crc_hqx
from dataclasses import dataclass
from enum import Enum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# The example of the NATS documentation, "NKeys".
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
USER = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


class Kind(Enum):
    """The prefix byte of a public key."""

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3


def written(raw: bytes) -> str:
    """`raw` as nkeys write it: with a checksum, in base32."""
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def public_bytes(key: str) -> bytes:
    """The 32 bytes of a public key."""
    return b32decode(key)[1:-2]


@dataclass(frozen=True)
class Identity:
    """A key of that kind, made from `raw`."""

    kind: Kind
    raw: bytes

    @property
    def seed(self) -> str:
        prefix = bytes([18 << 3 | self.kind.value >> 5, (self.kind.value & 31) << 3])
        return written(prefix + self.raw)

    @property
    def public(self) -> str:
        public = self._key.public_key().public_bytes_raw()
        return written(bytes([self.kind.value]) + public)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    def jwt(self, subject: Identity, *, expires: int | None = None, **claims: object) -> str:
        """What this one says of `subject`: its key, and these claims, until that second since the epoch."""
        kind = subject.kind.name.lower()
        body = {
            "jti": "tests",
            "iat": 1_700_000_000,
            **({} if expires is None else {"exp": expires}),
            "iss": self.public,
            "name": kind,
            "sub": subject.public,
            "nats": {"type": kind, "version": 2, **claims},
        }
        token = f"{_base64(_json({'typ': 'JWT', 'alg': 'ed25519-nkey'}))}.{_base64(_json(body))}"
        return f"{token}.{_base64(self.sign(token.encode()))}"

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.raw)


OPERATOR = Identity(Kind.OPERATOR, b"O" * 32)
ACCOUNT = Identity(Kind.ACCOUNT, b"A" * 32)
ALICE = Identity(Kind.USER, b"a" * 32)
SYSTEM = Identity(Kind.ACCOUNT, b"S" * 32)
SYSTEM_USER = Identity(Kind.USER, b"s" * 32)

# All limits of an account, and of a user: none.
_ACCOUNT_LIMITS = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1}
_USER_LIMITS = {"subs": -1, "data": -1, "payload": -1}


def operator_config() -> str:
    """Server configuration: users prove themselves with JWTs signed by ACCOUNT."""
    limits = {**_ACCOUNT_LIMITS, "payload": -1, "wildcards": True}
    account = OPERATOR.jwt(ACCOUNT, limits=limits)
    return (
        f"operator: {OPERATOR.jwt(OPERATOR)}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {ACCOUNT.public}: {account} }}\n"
    )


def managed_config(folder: str) -> str:
    """Server configuration: users of SYSTEM may change the accounts that the server keeps in a folder."""
    limits = {**_ACCOUNT_LIMITS, "payload": -1, "wildcards": True}
    return (
        f"operator: {OPERATOR.jwt(OPERATOR)}\nsystem_account: {SYSTEM.public}\n"
        f"resolver: {{ type: full, dir: '{folder}', allow_delete: true }}\n"
        f"resolver_preload: {{ {SYSTEM.public}: {OPERATOR.jwt(SYSTEM, limits=limits)} }}\n"
    )


def user_jwt(
    user: Identity = ALICE,
    account: Identity = ACCOUNT,
    *,
    bearer: bool = False,
    expires: int | None = None,
) -> str:
    """The JWT of a user of an account; a bearer's needs no signature."""
    return account.jwt(user, expires=expires, bearer_token=bearer, **_USER_LIMITS)


def creds(jwt: str, seed: str, newline: str = "\n") -> str:
    """The content of a `.creds` file, as nsc writes it."""
    lines = [
        "-----BEGIN NATS USER JWT-----",
        jwt,
        "------END NATS USER JWT------",
        "",
        "************************* IMPORTANT *************************",
        "NKEY Seed printed below can be used to sign and prove identity.",
        "NKEYs are sensitive and should be treated as secrets.",
        "",
        "-----BEGIN USER NKEY SEED-----",
        seed,
        "------END USER NKEY SEED------",
        "",
        "*************************************************************",
        "",
    ]
    return newline.join(lines)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
