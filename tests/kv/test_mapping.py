"""A bucket as a mapping."""

from __future__ import annotations

from collections.abc import MutableMapping

import pytest

import natsync
from natsync.kv import BucketMapping, InvalidKeyError, KeyValue

from tests.support.fake_server import Background
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


def test_it_behaves_as_a_dict_does(kv: KeyValue) -> None:
    values: MutableMapping[str, bytes] = BucketMapping(kv)
    assert len(values) == 0 and not values
    values["a"] = b"1"
    values.update({"b": b"2", "c.d": b"3"})
    assert values["a"] == b"1" and values.get("b") == b"2" and values.get("x") is None
    assert "a" in values and "x" not in values and 7 not in values and "not a key" not in values
    assert sorted(values) == ["a", "b", "c.d"] and len(values) == 3
    assert sorted(values.items()) == [("a", b"1"), ("b", b"2"), ("c.d", b"3")]
    assert sorted(values.values()) == [b"1", b"2", b"3"]
    assert dict(values) == {"a": b"1", "b": b"2", "c.d": b"3"} == values
    del values["a"]
    assert "a" not in values
    with pytest.raises(KeyError):
        values["a"]
    with pytest.raises(KeyError):
        del values["a"]
    assert values.pop("b") == b"2" and values.setdefault("b", b"4") == b"4"
    with pytest.raises(InvalidKeyError):
        values["not a key"] = b""
    assert repr(values) == f"BucketMapping({kv.bucket!r})"


def test_a_server_that_falls_silent_is_a_timeout(js_server: NatsServer, kv: KeyValue) -> None:
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        # A watch asks for 500 at a time, and may have asked twice before the server falls silent.
        for number in range(2000):
            nc.publish(f"$KV.{kv.bucket}.{number}", b"x")
        nc.flush()
        items = iter(BucketMapping(nc.jetstream(timeout=0.5).key_value(kv.bucket)).items())
        next(items)
        proxy.link().to_client.swallow()
        reading = Background(lambda: sum(1 for _ in items))
        with pytest.raises(natsync.NextMsgTimeoutError):
            reading.result()
        proxy.cut()
