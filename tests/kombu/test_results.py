"""The bucket of results, with either server."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

import natsync
from natsync.jetstream import WrongLastSequenceError
from natsync.kombu import results as module
from natsync.kombu.results import Results
from natsync.kv import KeyValueConfig

from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


@pytest.fixture(params=["current", "old"])
def client(
    request: pytest.FixtureRequest, js_server: NatsServer, old_js_server: NatsServer
) -> Iterator[natsync.Client]:
    server = js_server if request.param == "current" else old_js_server
    with server.connect() as nc:
        yield nc


@pytest.fixture
def name(stream_name: str) -> str:
    return stream_name.replace("[", "_").replace("]", "_")


@pytest.fixture
def results(client: natsync.Client, name: str) -> Results:
    return Results(client, None, KeyValueConfig(name), 60.0)


def test_a_key_may_be_any_text(results: Results) -> None:
    keys = ["celery-task-meta-1", "with blanks, *.> and \u00e9", "", "=", "a.b"]
    for number, key in enumerate(keys):
        results.write(key, b"%d" % number, 60)
    assert [results.last(key).value for key in keys] == [b"0", b"1", b"2", b"3", b"4"]
    assert results.values([*keys, "none"]) == [b"0", b"1", b"2", b"3", b"4", None]
    results.delete(keys[1])
    results.delete("never there")
    assert results.last(keys[1]).value is None
    assert results.values(keys) == [b"0", None, b"2", b"3", b"4"]


def test_many_values_are_asked_for_in_parts(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    for number in range(5):
        results.write(str(number), b"%d" % number, 60)
    assert results.values([*map(str, range(7))]) == [b"0", b"1", b"2", b"3", b"4", None, None]
    assert results.values(["8", "9"]) == [None, None]
    assert results.values([]) == []


def test_a_revision_may_be_demanded(results: Results) -> None:
    results.write("n", b"1", 60, expected_last_subject_seq=0)
    with pytest.raises(WrongLastSequenceError):
        results.write("n", b"1", 60, expected_last_subject_seq=0)
    results.write("n", b"2", 60, expected_last_subject_seq=results.last("n").revision)
    results.delete("n")
    results.write("n", b"3", 60, expected_last_subject_seq=results.last("n").revision)
    assert results.last("n").value == b"3"


def test_a_write_is_known_by_its_id_after_others(results: Results) -> None:
    mine, others = uuid4().hex, uuid4().hex
    results.write("n", b"1", 60, msg_id=mine)
    results.write("n", b"2", 60, msg_id=others)
    assert results.has(mine)
    assert not results.has(uuid4().hex)
    assert results.last("n").value == b"2"
    assert list(results._bucket.keys()) == ["n"]


def test_values_expire(js_server: NatsServer, name: str) -> None:
    with js_server.connect() as nc:
        results = Results(nc, None, KeyValueConfig(name), 60.0)
        assert results.expiring
        assert nc.jetstream().key_value(name).status().config.ttl == 0
        results.write("short", b"1", 0.1)  # a second is the least
        results.write("long", b"2", 3600)
        results.write("ever", b"3", None)
        remaining = results.last("long").remaining
        assert remaining and 3590 < remaining < 3610
        assert results.last("ever").remaining is None
        eventually(lambda: results.last("short").value is None)
        assert results.values(["short", "long", "ever"]) == [None, b"2", b"3"]


def test_an_old_server_has_one_time_for_all(old_js_server: NatsServer, name: str) -> None:
    with old_js_server.connect() as nc:
        results = Results(nc, None, KeyValueConfig(name), 7.0)
        assert not results.expiring
        assert nc.jetstream().key_value(name).status().config.ttl == 7.0
        results.write("a", b"1", 3600)
        assert results.last("a").remaining is None


def test_a_bucket_that_exists_is_used(client: natsync.Client, name: str) -> None:
    client.jetstream().create_key_value(KeyValueConfig(name, ttl=9.0, storage="memory"))
    results = Results(client, None, KeyValueConfig(name), 60.0)
    assert not results.expiring
    results.write("a", b"1", 3600)
    assert results.last("a").value == b"1"


def test_changes_are_waited_for(results: Results) -> None:
    results.write("a", b"1", 60)
    changes = results.changes("a")
    try:
        assert changes.wait(10)
        while changes.wait(0.05):
            pass
        assert not changes.wait(0.05)
        results.write("b", b"1", 60)
        assert not changes.wait(0.05)
        results.write("a", b"2", 60)
        assert changes.wait(10)
    finally:
        changes.close()
