"""Logins: what goes together; `.creds` files: what is understood, and what is said of the rest."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import binary, tuples

from natsync.credentials import Login, read_credentials
from natsync.errors import OptionError

from tests.support.logins import ACCOUNT, ALICE, SEED, USER, creds, user_jwt

JWT = user_jwt()
CONTENT = creds(JWT, ALICE.seed)
BASE64 = b64encode(CONTENT.encode()).decode()


def sign(nonce: bytes) -> bytes:
    return ALICE.sign(nonce)


def test_a_file_and_its_content_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "user.creds"
    path.write_text(CONTENT)
    for source in (path, str(path), CONTENT, CONTENT.encode()):
        assert read_credentials(source) == (JWT, ALICE.seed)


def test_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user.creds").write_text(CONTENT)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read_credentials("~/user.creds") == (JWT, ALICE.seed)


@pytest.mark.parametrize(
    "content",
    [
        creds(JWT, ALICE.seed, "\r\n"),
        CONTENT.replace("-----BEGIN", "---BEGIN").replace("------END", "---END"),
        CONTENT.replace("BEGIN NATS USER JWT", " BEGIN NATS USER JWT "),
        "\ufeff\n" + CONTENT,
        "\ufeff" + CONTENT,  # as Windows Notepad writes it
        CONTENT + CONTENT[: CONTENT.index("****")],
        CONTENT.replace("\n", "\n\n"),
    ],
)
def test_other_ways_to_write_it(content: str) -> None:
    assert read_credentials(content) == (JWT, ALICE.seed)


@given(binary() | tuples(binary(), binary()).map(CONTENT.encode().join))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        jwt, seed = read_credentials(content)
    except OptionError:
        return
    assert jwt and seed and (JWT, ALICE.seed) == (jwt, seed)


HALF = CONTENT.index("-----BEGIN USER")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no JWT block"),
        (b"\n", "no JWT block"),
        (bytes(100), "no JWT block"),
        (CONTENT[HALF:], "no JWT block"),
        (CONTENT[:HALF], "no seed block"),
        (CONTENT[: HALF + 40], "no seed block"),
        (CONTENT.replace(ALICE.seed, ""), "no seed block"),
        (CONTENT.replace("------END USER", "------FIN USER"), "no seed block"),
        (b"-----BEGIN " * 10_000, "no JWT block"),
        (b"-----BEGIN A-----\n" + b"a" * 1_000_000, "no JWT block"),
    ],
)
def test_what_is_missing_is_named(content: str | bytes, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as caught:
        read_credentials(content)
    assert ALICE.seed not in f"{caught.value!r} {caught.value.__context__!r}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.creds"
    with pytest.raises(OptionError, match="No such file") as caught:
        read_credentials(missing)
    assert str(missing) in caught.value.reason and "\n" not in str(caught.value)
    with pytest.raises(OptionError, match="Is a directory"):
        read_credentials(tmp_path)
    with pytest.raises(OptionError, match="not a file name"):
        read_credentials("a\0b")
    with pytest.raises(OptionError, match="too large"):
        read_credentials("/dev/zero")


@pytest.mark.parametrize("secret", [ALICE.seed, JWT, f" {ALICE.seed} ", BASE64, f"{BASE64}\n"])
def test_a_secret_taken_for_a_path_is_not_shown(secret: str) -> None:
    """Kubernetes and others keep files in base64."""
    for source in (secret, Path(secret)):
        with pytest.raises(OptionError, match="not a seed, a JWT or base64") as caught:
            Login(credentials=source)
        assert secret.strip() not in str(caught.value)


def test_what_is_no_file_name_is_not_shown_as_a_whole() -> None:
    """It may be credentials in a form that nobody expects."""
    text = f"{JWT}:{ALICE.seed}"
    with pytest.raises(OptionError, match="File name too long") as caught:
        read_credentials(text)
    assert JWT not in str(caught.value) and ALICE.seed not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"token": "t", "user": "u"}, "token"),
        ({"token": lambda: "t", "password": "p"}, "token"),
        ({"credentials": CONTENT, "nkey": SEED}, "credentials"),
        ({"credentials": "user.creds", "jwt": JWT}, "credentials"),
        ({"credentials": lambda: CONTENT, "sign": sign}, "credentials"),
        ({"nkey": SEED, "jwt": JWT, "sign": sign}, "sign"),
        ({"sign": sign}, "sign"),
        ({"sign": sign, "user": "u"}, "sign"),
        ({"nkey": SEED, "sign": sign}, "nkey"),
        ({"nkey": USER}, "nkey"),
        ({"nkey": ACCOUNT.seed}, "nkey"),
        ({"credentials": CONTENT[HALF:]}, "credentials"),
        ({"credentials": creds(JWT, ACCOUNT.seed)}, "credentials"),
    ],
)
def test_what_does_not_go_together(options: dict[str, object], option: str) -> None:
    with pytest.raises(OptionError) as caught:
        Login(**options)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.option == option
    assert SEED[5:] not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"user": "u", "password": "p", "jwt": JWT, "sign": sign},  # what an auth callout decides by
        {"token": "t", "credentials": CONTENT},
        {"jwt": JWT},
        {"jwt": JWT, "nkey": ALICE.seed},
        {"jwt": JWT.encode(), "nkey": lambda: ALICE.seed},
        {"nkey": USER, "sign": sign},
        {"nkey": SEED.encode()},
        {"nkey": lambda: SEED},
        {"credentials": Path("not there yet")},
    ],
)
def test_what_goes_together(options: dict[str, object]) -> None:
    shown = repr(Login(**options))  # type: ignore[arg-type]  # of many kinds
    assert not any(secret in shown for secret in (SEED, ALICE.seed, JWT, "'p'", "'t'"))


@pytest.mark.parametrize(
    "options", [{"user": 1}, {"nkey": None}, {"jwt": 1.5}, {"credentials": 3}, {"sign": "x"}]
)
def test_a_login_refuses_values_of_a_wrong_type(options: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=f"^{next(iter(options))} must be "):
        Login(**options)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("login", "may_block"),
    [
        (Login(), False),
        (Login(user="u", password="p"), False),
        (Login(nkey=SEED), False),
        (Login(credentials=CONTENT), False),
        (Login(credentials=CONTENT.encode()), False),
        (Login(credentials="user.creds"), True),
        (Login(credentials=Path("user.creds")), True),
        (Login(token=lambda: "t"), True),
        (Login(jwt=lambda: JWT), True),
    ],
)
def test_what_may_block_to_ask_for(login: Login, may_block: bool) -> None:
    assert login.may_block is may_block


def test_a_file_that_has_no_credentials_is_named(tmp_path: Path) -> None:
    path = tmp_path / "app.creds"
    path.write_text(CONTENT[:HALF], encoding="utf-8")
    with pytest.raises(OptionError, match="credentials: file '.*app.creds': no seed block"):
        read_credentials(path)
