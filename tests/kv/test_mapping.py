"""A bucket as a mapping."""

from __future__ import annotations

from collections.abc import MutableMapping

import pytest

from natsync.kv import BucketMapping, InvalidKeyError, KeyValue

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
