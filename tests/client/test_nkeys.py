"""Nkeys: seeds to public keys and signatures; what is not a seed is refused, and never shown."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis.strategies import binary, from_regex, text

from natsync.errors import OptionError
from natsync.nkeys import KeyPair, is_public_key

from tests.support.logins import ACCOUNT, SEED, USER, public_bytes, written


def test_a_seed_gives_its_public_key() -> None:
    assert KeyPair(SEED).public_key == USER
    assert KeyPair(SEED.encode() + b"\n").public_key == USER


def test_a_signature_is_verified_by_the_public_key() -> None:
    signed = KeyPair(SEED).sign(b"nonce")
    assert len(signed) == 64
    Ed25519PublicKey.from_public_bytes(public_bytes(USER)).verify(signed, b"nonce")


def test_what_is_shown_of_a_pair_is_its_public_key() -> None:
    assert repr(KeyPair(SEED)) == f"KeyPair({USER})"


@pytest.mark.parametrize(
    ("seed", "reason"),
    [
        ("", "is not an nkey seed, or is damaged"),
        ("hello", "is not an nkey seed, or is damaged"),
        (SEED[:-1], "is not an nkey seed, or is damaged"),
        (SEED[:20] + "A" + SEED[21:], "is not an nkey seed, or is damaged"),
        (SEED.lower(), "is not an nkey seed, or is damaged"),
        ("S\u00fc" + SEED[2:], "is not an nkey seed, or is damaged"),
        (b"\xff\xfe" + SEED.encode(), "is not an nkey seed, or is damaged"),
        (USER, "is not an nkey seed: this is a public key"),
        (ACCOUNT.seed, "is the seed of an account, not of a user"),
        (written(bytes([18 << 3 | 5, 0]) + bytes(5)), "is not an nkey seed: wrong length"),
        (written(bytes([18 << 3 | 7, 31 << 3]) + bytes(32)), "is the seed of something, not"),
    ],
)
def test_what_is_no_seed_of_a_user(seed: str | bytes, reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        KeyPair(seed, "where")
    error = caught.value
    assert (error.option, error.reason[: len(reason)]) == ("where", reason)
    if len(seed) > 20:
        assert str(seed)[5:20] not in f"{error} {error!r} {error.__context__!r}"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_every_mistyped_letter_is_noticed() -> None:
    for place in range(len(SEED) - 1):  # of the last letter, two bits mean nothing
        wrong = "B" if SEED[place] != "B" else "C"
        with pytest.raises(OptionError):
            KeyPair(SEED[:place] + wrong + SEED[place + 1 :])


@given(text() | binary() | from_regex("[A-Z2-7]{58}", fullmatch=True))
def test_anything_else_is_refused(seed: str | bytes) -> None:
    with pytest.raises(OptionError):
        KeyPair(seed)


def test_only_valid_public_keys_are_public_keys() -> None:
    assert is_public_key(USER) and is_public_key(USER.encode())
    for other in ("", "U", SEED, USER[:-1], ACCOUNT.public):
        assert not is_public_key(other)


@pytest.fixture
def unimported(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """`cryptography` will be imported anew."""
    for name in list(sys.modules):
        if name == "cryptography" or name.startswith("cryptography."):
            monkeypatch.delitem(sys.modules, name)
    return monkeypatch


def test_without_cryptography_it_says_what_to_install(unimported: pytest.MonkeyPatch) -> None:
    unimported.setitem(sys.modules, "cryptography", None)
    with pytest.raises(
        OptionError, match=r"needs the package cryptography: pip install '\S*\[nkeys\]'"
    ):
        KeyPair(SEED)


def test_a_cryptography_that_cannot_be_imported_shows_why(
    unimported: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cryptography.py").write_text("import one_of_its_own")
    unimported.syspath_prepend(tmp_path)
    with pytest.raises(
        OptionError, match=r"be imported: No module named 'one_of_its_own'; pip install '"
    ):
        KeyPair(SEED)
