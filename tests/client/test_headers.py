"""Headers: a mapping that keeps order, case and repetition; the block that carries them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import pytest

from natsync.errors import ProtocolError
from natsync.headers import Headers, encode_headers, to_wire
from natsync.message import Msg, ReceivedMsg
from natsync.protocol import HMsg

BLOCK = b"NATS/1.0 503 No Responders\r\nA: 1\r\nb: x\r\nA:  2 \r\na: 3\r\n\r\n"


def message(block: bytes) -> Msg:
    return ReceivedMsg(HMsg(b"s", b"1", b"", block, b""), lambda *_, **__: None)


def test_headers_keep_order_case_and_repetition() -> None:
    msg = message(BLOCK)
    headers = msg.headers
    assert headers is msg.headers
    assert headers.fields == (("A", "1"), ("b", "x"), ("A", "2"), ("a", "3"))
    assert headers["A"] == headers.get("A") == "1"
    assert headers.get_all("A") == ["1", "2"]
    assert list(headers) == ["A", "b", "a"]
    assert (len(headers), "A" in headers, "B" in headers) == (3, True, False)
    assert headers.to_dict() == {"A": ["1", "2"], "b": ["x"], "a": ["3"]}
    assert (headers.get("x"), headers.get("x", "y"), headers.get_all("x")) == (None, "y", [])
    with pytest.raises(KeyError):
        headers["x"]
    assert (msg.status, msg.description) == (503, "No Responders")


def test_headers_are_a_mapping_of_each_name_to_its_first_value() -> None:
    headers = message(BLOCK).headers
    assert isinstance(headers, Mapping)
    assert dict(headers) == {"A": "1", "b": "x", "a": "3"}
    assert list(headers.items()) == [("A", "1"), ("b", "x"), ("a", "3")]
    assert list(headers.keys()) == ["A", "b", "a"] and list(headers.values()) == ["1", "x", "3"]
    match headers:
        case {"b": found}:
            assert found == "x"
        case _:
            pytest.fail("no mapping")


def test_a_name_is_found_in_any_case() -> None:
    headers = Headers({"Nats-Msg-Id": "1", "nats-msg-id": "2"})
    assert headers.find("NATS-MSG-ID") == headers.find("nats-msg-id") == "1"
    assert (headers.find("x"), headers.find("x", "y")) == (None, "y")
    assert "NATS-MSG-ID" not in headers


def test_headers_are_made_from_a_mapping_pairs_or_others() -> None:
    made = Headers({"a": ["1", "2"], "b": "3"})
    assert made.fields == (("a", "1"), ("a", "2"), ("b", "3"))
    assert Headers(made) == made == Headers([("a", "1"), ("a", "2"), ("b", "3")])
    assert not Headers()
    for bad in ({"a": 1}, {1: "a"}, [("a", b"1")], [("a", ["1"])]):
        with pytest.raises(TypeError, match="^header names and values are str"):
            Headers(bad)  # type: ignore[arg-type]  # what is refused


def test_headers_compare_by_content() -> None:
    assert Headers([("a", "1")]) == Headers([("a", "1")]) != Headers([("A", "1")])
    assert Headers([("a", "1"), ("b", "2")]) == Headers([("b", "2"), ("a", "1")])
    assert Headers([("a", "1"), ("a", "2")]) != Headers([("a", "2"), ("a", "1")])
    assert Headers({"a": "1"}) != {"a": "1"}
    ordered, other = Headers([("a", "1"), ("b", "2")]), Headers([("b", "2"), ("a", "1")])
    assert len({ordered, other}) == 1
    assert repr(Headers([("a", "1")])) == "Headers([('a', '1')])"


def test_headers_are_copied_and_pickled() -> None:
    headers = message(BLOCK).headers
    assert pickle.loads(pickle.dumps(headers)) == copy.deepcopy(headers) == headers


def test_headers_that_are_sent_again_are_encoded_once() -> None:
    headers = Headers({"A": "1"})
    assert encode_headers(headers) is encode_headers(headers)


def test_encoding_headers() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nb: \xc3\xa4\r\n\r\n"
    assert encode_headers({"A": ["1", "2"], "b": "ä"}) == block
    assert encode_headers(message(block).headers) == block


@pytest.mark.parametrize("bad", [{"a b": "1"}, {"a:": "1"}, {"": "1"}, {"a": "1\r\nb: 2"}])
def test_headers_that_cannot_be_carried(bad: dict[str, str]) -> None:
    with pytest.raises(ProtocolError):
        encode_headers(bad)


@pytest.mark.parametrize("bad", [{"a": [1]}, {"a": [b"1"]}, {1: "x"}, {"a": 1}])
def test_headers_of_the_wrong_type(bad: dict[str, str]) -> None:
    with pytest.raises(TypeError):
        encode_headers(bad)


def test_a_lone_surrogate_cannot_be_sent() -> None:
    with pytest.raises(ProtocolError):
        to_wire("a\ud800")
