"""Key logs: lines, growth, limits, and that nothing of a secret is shown."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats import Options
from dissect.nats.errors import CaptureError, MissingLibrary
from dissect.nats.secrets import key_log
from dissect.nats.secrets.key_log import (
    LABELS,
    KeyLog,
    KeyLogs,
    decryption_lack,
    open_key_logs,
    without_secrets,
)

from tests.support.paths import CAPTURES

RANDOM = bytes(range(32))
SECRET = bytes(range(48))
LINE = b"CLIENT_RANDOM %s %s\n" % (RANDOM.hex().encode(), SECRET.hex().encode())


def test_lines_are_found_by_their_client_random() -> None:
    log = KeyLog()
    assert not log
    log.add(b"# a comment\n\n" + LINE + LINE.replace(b"CLIENT_RANDOM", b"SERVER_TRAFFIC_SECRET_0"))
    assert log
    assert (
        log.find(RANDOM, "CLIENT_RANDOM") == log.find(RANDOM, "SERVER_TRAFFIC_SECRET_0") == [SECRET]
    )
    missing = [(RANDOM, "CLIENT_TRAFFIC_SECRET_0"), (SECRET[:32][::-1], "CLIENT_RANDOM")]
    assert [log.find(*each) for each in missing] == [[], []]


def test_a_connection_may_have_secrets_of_every_kind_and_size() -> None:
    log = KeyLog()
    secrets = {label: bytes([size]) * size for size, label in enumerate(LABELS, 60)}
    for label, secret in secrets.items():
        log.add(f"{label} {RANDOM.hex()} {secret.hex()}\n".encode())
    kept = {label: log.find(RANDOM, label) for label in LABELS}
    assert kept == {
        label: [secret] if 0 < len(secret) <= 64 else [] for label, secret in secrets.items()
    }
    assert [list(log.randoms(label)) for label in LABELS] == [
        [RANDOM] if secret else [] for secret in kept.values()
    ]


def test_a_secret_that_comes_twice_is_kept_once_and_another_one_beside_it() -> None:
    """A capture whose packets were read before its secrets were looked for brings them twice."""
    log = KeyLog()
    log.add(LINE + LINE.replace(SECRET.hex().encode(), b"11" * 48) + LINE)
    assert log.find(RANDOM, "CLIENT_RANDOM") == [SECRET, b"\x11" * 48]
    assert "2 secrets" in repr(log)


def test_a_connection_has_few_secrets_of_a_kind_whatever_a_log_says() -> None:
    """Each one that is kept may be tried on a record."""
    log = KeyLog()
    lines = (f"CLIENT_RANDOM {RANDOM.hex()} {number:096x}\n" for number in range(1, 20_000))
    log.add("".join(lines).encode())
    found = log.find(RANDOM, "CLIENT_RANDOM")
    assert len(found) == 8 and found[0] == (1).to_bytes(48, "big")


def test_secrets_that_protect_no_records_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_log, "MOST_SECRETS", 1)
    log = KeyLog()
    for number in range(9):
        log.add(b"EXPORTER_SECRET " + b"%02x" % number * 32 + b" 11\n")
    assert not log
    log.add(LINE)
    assert log


def test_a_million_secrets_fit_in_the_memory_that_is_named() -> None:
    """The largest case is TLS 1.2, with a connection for each."""
    tracemalloc.start()
    try:
        log = KeyLog()
        count = 20_000
        for number in range(count):
            log.add(b"CLIENT_RANDOM %064x %096x\n" % (number, number))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / count < 250


@pytest.mark.parametrize(
    "line",
    [
        b"CLIENT_RANDOM 00 00\n",
        b"CLIENT_RANDOM zz" + LINE[16:],
        b"RSA 0011 2233 44\n",
        b"\xff\xfe \xff \xff\n",
        b"x" * 5000 + b"\n",
        LINE[:-1],
    ],
)
def test_other_lines_are_passed_over(line: bytes) -> None:
    log = KeyLog()
    log.add(line)
    assert not log
    log.add(b"\n" + LINE)
    assert log


def test_lines_that_are_too_short_are_not_looked_at() -> None:
    looked_at = []

    class Seen(KeyLog):
        def _add_line(self, line: bytes, path: str) -> None:
            looked_at.append(line)
            super()._add_line(line, path)

    log, shortest = Seen(), b"CLIENT_RANDOM %s 01" % RANDOM.hex().encode()
    log.add(b"\n" * 1000 + b"a\n" * 1000 + shortest[:-1] + b"\n" + shortest + b"\n")
    assert looked_at == [shortest]
    assert log.find(RANDOM, "CLIENT_RANDOM") == [b"\1"]


@given(st.lists(st.integers(1, 40)))
def test_a_log_may_come_in_pieces(sizes: list[int]) -> None:
    log, at = KeyLog(), 0
    wire = b"no line of a key log\n" + LINE * 2
    for size in [*sizes, len(wire)]:
        log.add(wire[at : at + size])
        at += size
    assert log.find(RANDOM, "CLIENT_RANDOM") == [SECRET]


def test_a_file_may_grow(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(LINE[:50])
    assert open_key_logs([str(path)]) == (str(path),)
    logs = KeyLogs((str(path),))
    assert list(logs.find(RANDOM, "CLIENT_RANDOM")) == []
    with path.open("ab") as file:
        file.write(LINE[50:])
    assert list(logs.find(RANDOM, "CLIENT_RANDOM")) == [SECRET]
    assert list(logs.find(RANDOM, "CLIENT_TRAFFIC_SECRET_0")) == []
    with path.open("ab") as file:  # the secrets of one connection need not come at once
        file.write(LINE.replace(b"CLIENT_RANDOM", b"CLIENT_TRAFFIC_SECRET_0"))
    assert list(logs.find(RANDOM, "CLIENT_TRAFFIC_SECRET_0")) == [SECRET]


def test_a_file_may_be_begun_again(tmp_path: Path) -> None:
    """As a program does that truncates its key log when it starts."""
    path = tmp_path / "keys.log"
    path.write_bytes(LINE.replace(b"CLIENT_RANDOM", b"CLIENT_TRAFFIC_SECRET_0") + LINE[:50])
    log = KeyLog(str(path))
    log.refresh()
    path.write_bytes(LINE)
    assert log.find(RANDOM, "CLIENT_RANDOM") == [SECRET]
    assert log.find(RANDOM, "CLIENT_TRAFFIC_SECRET_0") == [SECRET]


@pytest.mark.parametrize("more", [b"", LINE[:70], LINE * 3])
def test_a_file_may_be_rewritten_without_becoming_smaller(more: bytes, tmp_path: Path) -> None:
    """As by a program that has written more secrets since its start than the one before it."""
    path = tmp_path / "keys.log"
    other = b"CLIENT_RANDOM %s %s\n" % (b"ab" * 32, b"cd" * 48)
    path.write_bytes(other + LINE[:50])
    log = KeyLog(str(path))
    log.refresh()
    path.write_bytes(LINE + LINE[:50] + more)
    assert log.find(RANDOM, "CLIENT_RANDOM") == [SECRET]


def test_a_secret_that_never_comes_costs_few_looks_at_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now, looks = tmp_path / "keys.log", [100.0], [0]
    path.write_bytes(LINE)
    log = KeyLog(str(path))
    monkeypatch.setattr(key_log, "monotonic", lambda: now[0])
    monkeypatch.setattr(log, "refresh", lambda: looks.__setitem__(0, looks[0] + 1))
    for _ in range(1_000):
        assert log.find(RANDOM[::-1], "CLIENT_RANDOM") == []
    assert looks == [8]
    now[0] += 0.11
    for _ in range(1_000):
        log.find(RANDOM[::-1], "CLIENT_RANDOM")
    assert looks == [9]


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(LINE)
    log = KeyLog(str(path))
    log.refresh()
    shown = repr(log) + repr(Options(keylog=[str(path)]))
    assert SECRET.hex() not in shown and "1 secrets" in shown


def test_a_pickle_has_the_names_of_files_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(LINE)
    logs = KeyLogs((str(path),))
    logs.embedded.add(LINE.replace(b"CLIENT_RANDOM", b"SERVER_TRAFFIC_SECRET_0"))
    assert (
        list(logs.find(RANDOM, "CLIENT_RANDOM"))
        == list(logs.find(RANDOM, "SERVER_TRAFFIC_SECRET_0"))
        == [SECRET]
    )
    pickled = pickle.dumps(logs)
    assert SECRET not in pickled and SECRET.hex().encode() not in pickled
    restored = pickle.loads(pickled)
    assert list(restored.find(RANDOM, "CLIENT_RANDOM")) == [SECRET]
    assert list(restored.find(RANDOM, "SERVER_TRAFFIC_SECRET_0")) == []


def test_too_many_secrets_in_captures_name_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """They count for one dissection: the next one begins with none."""
    monkeypatch.setattr(key_log, "MOST_SECRETS", 1)
    for _ in range(3):
        embedded = KeyLogs().embedded
        embedded.add(LINE, "one.pcapng")
    with pytest.raises(CaptureError, match="^two.pcapng: the key log has more than 1 secrets"):
        embedded.add(LINE.replace(b"CLIENT_RANDOM", b"SERVER_TRAFFIC_SECRET_0"), "two.pcapng")


def test_key_logs_without_a_secret_are_named_as_they_were_given(tmp_path: Path) -> None:
    good, empty = tmp_path / "good", tmp_path / "empty"
    good.write_bytes(LINE)
    empty.write_bytes(b"")
    paths = [str(good), str(empty), str(tmp_path / "missing"), str(CAPTURES / "ipv6.pcap")]
    assert without_secrets(paths) == [str(empty)]
    empty.write_bytes(LINE)
    assert without_secrets(paths) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="a\0b: the key log cannot be read: .*embedded null"):
        Options(keylog="a\0b")
    with pytest.raises(CaptureError, match="nowhere.log: the key log cannot be read: No such file"):
        Options(keylog=[str(tmp_path / "nowhere.log")])


def test_a_capture_is_no_key_log() -> None:
    with pytest.raises(
        CaptureError, match="core-2.15.1.pcap: is not a key log: it has binary data"
    ):
        Options(keylog=str(CAPTURES / "core-2.15.1.pcap"))


def test_too_many_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_log, "MOST_SECRETS", 3)
    path = tmp_path / "keys.log"
    lines = [b"CLIENT_RANDOM " + b"%02x" % number * 32 + b" 11\n" for number in range(4)]
    path.write_bytes(b"".join(lines[:3] * 3))
    open_key_logs([str(path)])
    with path.open("ab") as file:
        file.write(lines[3])
    with pytest.raises(CaptureError, match="more than 3 secrets; keep those"):
        open_key_logs([str(path)])


def test_without_the_library_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.log"
    path.write_bytes(LINE)
    lack = MissingLibrary("cryptography", "tls")
    monkeypatch.setattr(key_log, "decryption_lack", lambda: lack)
    with pytest.raises(MissingLibrary, match=r"pip install '\S*\[tls\]'"):
        open_key_logs([str(path)])
    assert open_key_logs([]) == ()


def test_why_the_library_cannot_be_imported_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*names: str) -> None:
        raise MissingLibrary("cryptography", "tls", "undefined symbol: EVP_x")

    assert decryption_lack() is None
    monkeypatch.setattr(key_log, "imported", failed)
    lack = decryption_lack.__wrapped__()
    assert "cryptography cannot be imported: undefined symbol: EVP_x" in str(lack)
