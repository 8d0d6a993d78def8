"""JSON objects as dataclasses: nothing is lost on the way through, wrong types are refused by name."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from natsync._json import format_time, parse_time
from natsync.errors import OptionError
from natsync.jetstream import (
    ConsumerConfig,
    InvalidResponseError,
    Placement,
    RePublish,
    StreamConfig,
    StreamInfo,
    StreamSource,
    SubjectTransform,
)
from natsync.object_store import ObjectInfo

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


def test_fields_at_their_defaults_are_not_sent() -> None:
    assert StreamConfig("orders").to_json() == {"name": "orders"}
    assert ConsumerConfig().to_json() == {"ack_policy": "explicit"}  # else the server takes none
    assert ConsumerConfig(ack_policy="none").to_json() == {"ack_policy": "none"}


def test_times_are_seconds_here_and_nanoseconds_there() -> None:
    config = ConsumerConfig(ack_wait=1.5, backoff=[0.1, 2], opt_start_time=NOON)
    assert config.to_json() == {
        "ack_policy": "explicit",
        "ack_wait": 1_500_000_000,
        "backoff": [100_000_000, 2_000_000_000],
        "opt_start_time": "2026-01-02T12:00:00Z",
    }
    assert ConsumerConfig.from_json(config.to_json()) == config


@given(st.integers(0, 400 * 86400 * 1000).map(lambda ms: ms * 1_000_000))
def test_whole_milliseconds_of_a_year_come_back_as_they_were(nanoseconds: int) -> None:
    json_object = {"name": "a", "max_age": nanoseconds}
    assert StreamConfig.from_json(json_object).to_json().get("max_age", 0) == nanoseconds


def test_nanoseconds_go_back_as_they_came_unless_the_field_is_changed() -> None:
    json_object = {"ack_policy": "none", "opt_start_time": "2026-01-02T12:00:00.123456789Z"}
    config = ConsumerConfig.from_json(json_object)
    assert config.opt_start_time == NOON + timedelta(microseconds=123456)
    assert config.to_json() == json_object
    assert replace(config, description="a").to_json() == {**json_object, "description": "a"}
    changed = replace(config, opt_start_time=NOON)
    assert changed.to_json()["opt_start_time"] == "2026-01-02T12:00:00Z"
    assert pickle.loads(pickle.dumps(config)).to_json() == json_object


def test_what_it_does_not_know_is_kept_and_sent_back() -> None:
    json_object = {
        "name": "a",
        "novel": [1],
        "placement": {"cluster": "c", "rack": 7},
        "max_msgs": "many",
    }
    config = StreamConfig.from_json(json_object)
    assert config.extra == {"novel": [1], "max_msgs": "many"} and config.max_msgs == -1
    assert config.placement == Placement(cluster="c", extra={"rack": 7})
    assert config.to_json() == json_object
    assert StreamConfig("a", extra={"novel": True}).to_json() == {"name": "a", "novel": True}


def test_null_and_the_zero_time_are_absent() -> None:
    info = StreamInfo.from_json(
        {"config": {"name": "a", "subjects": None}, "created": "0001-01-01T00:00:00Z"}
    )
    assert info == StreamInfo(StreamConfig("a"))
    assert repr(info) == "StreamInfo(config=StreamConfig(name='a'))"


@pytest.mark.parametrize("json_object", [None, [], {}, {"config": {}}, {"config": {"name": 7}}])
def test_without_a_required_key_it_is_refused(json_object: object) -> None:
    with pytest.raises(InvalidResponseError, match="STREAM.INFO.a"):
        StreamInfo.from_json(json_object, "STREAM.INFO.a")


@pytest.mark.parametrize(
    ("field", "value", "error", "words"),
    [
        ("subjects", "orders.>", TypeError, "subjects must be a list, not str"),
        ("subjects", [1], TypeError, "an item of subjects must be str, not int"),
        ("max_msgs", True, TypeError, "max_msgs must be int, not bool"),
        ("sealed", 1, TypeError, "sealed must be bool, not int"),
        ("max_age", timedelta(1), TypeError, "use timedelta.total_seconds()"),
        ("max_age", "1h", TypeError, "max_age must be a number of seconds, not str"),
        ("max_age", float("nan"), ValueError, "max_age must be a number of seconds below"),
        ("max_age", float("inf"), ValueError, "max_age must be a number of seconds below"),
        ("placement", {"cluster": "c"}, TypeError, "placement must be Placement, not dict"),
        ("sources", [Placement()], TypeError, "must be StreamSource, not Placement"),
        ("metadata", {"a": 1}, TypeError, "a value of metadata must be str, not int"),
        ("metadata", {1: "a"}, TypeError, "metadata must be a mapping of str"),
    ],
)
def test_a_wrong_type_is_refused_by_name(
    field: str, value: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as caught:
        StreamConfig("a", **{field: value})  # type: ignore[arg-type]  # on purpose
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("retention", "wrong", "must be limits, interest or workqueue, not 'wrong'"),
        ("compression", "", "must be none or s2, not ''"),
        ("num_replicas", -1, "must be at least 0, not -1"),
        ("max_age", -1, "must be at least 0, not -1.0"),
        ("max_msgs", 2**63, "must be at most 2**63 - 1, not 9223372036854775808"),
        ("max_msgs", -(2**63) - 1, "must be at least -2**63, not -9223372036854775809"),
        ("max_msg_size", 2**31, "must be at most 2**31 - 1, not 2147483648"),
        ("first_seq", -1, "must be at least 0, not -1"),
        ("first_seq", 2**64, "must be at most 2**64 - 1, not 18446744073709551616"),
        ("subjects", ["a", "b c"], "invalid subject 'b c': contains whitespace"),
        ("subjects", [""], "invalid subject '': is empty"),
    ],
)
def test_what_no_server_takes_is_refused_by_name(field: str, value: object, words: str) -> None:
    with pytest.raises(OptionError) as caught:
        StreamConfig("a", **{field: value})  # type: ignore[arg-type]  # on purpose
    assert str(caught.value) == f"option {field}: {words}"


@pytest.mark.parametrize(
    "made",
    [
        lambda: ConsumerConfig(filter_subject="a..b"),
        lambda: ConsumerConfig(filter_subjects=["a", ">.b"]),
        lambda: ConsumerConfig(deliver_subject="a b"),
        lambda: RePublish("a b"),
        lambda: StreamSource("a", filter_subject="a."),
        lambda: SubjectTransform("a b", "c"),
    ],
)
def test_subjects_that_match_nothing_are_refused(made: Callable[[], object]) -> None:
    with pytest.raises(OptionError, match="(subjects?|src): invalid subject '.*': (contains|has)"):
        made()


def test_subjects_with_wildcards_and_none_are_taken() -> None:
    assert StreamConfig("a", subjects=["a.*", "b.>"]).subjects == ("a.*", "b.>")
    assert (RePublish().src, RePublish(">").src, StreamSource("a").filter_subject) == ("", ">", "")
    assert SubjectTransform("", "{{wildcard(1)}}").src == ""
    odd = {"name": "a", "subjects": ["b c"]}  # as a newer server might send it
    assert StreamConfig.from_json(odd).to_json() == odd


def test_words_and_numbers_of_a_newer_server_go_back_as_they_came() -> None:
    json_object = {"name": "a", "retention": "novel", "num_replicas": -1, "first_seq": 2**64}
    config = StreamConfig.from_json(json_object)
    assert (config.retention, config.num_replicas, config.first_seq) == ("novel", -1, 2**64)
    assert config.to_json() == json_object
    assert replace(config, max_msgs=5).to_json() == {**json_object, "max_msgs": 5}
    assert replace(config, retention="limits").retention == "limits"
    with pytest.raises(OptionError, match="retention"):
        replace(config, retention="other")  # type: ignore[arg-type]  # on purpose


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(OptionError, match="opt_start_time: must have a time zone"):
        StreamSource("a", opt_start_time=datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="opt_start_time must be a datetime, not str"):
        StreamSource("a", opt_start_time="2026-01-01")  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-02T12:00:00Z", NOON),
        ("2026-01-02T13:00:00+01:00", NOON),
        ("2026-01-02T12:00:00.5Z", NOON + timedelta(seconds=0.5)),
        ("2026-01-02t12:00:00.000001999z", NOON + timedelta(microseconds=1)),
    ],
)
def test_times_of_rfc_3339(text: str, time: datetime) -> None:
    assert parse_time(text) == time
    assert parse_time(format_time(time)) == time


RFC_3339 = r"(?ai)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
def test_times_beyond_those_of_python_are_no_times(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


@given(st.text(max_size=40))
def test_other_text_is_no_time(text: str) -> None:
    assume(not re.fullmatch(RFC_3339, text))  # hypothesis also tries texts of the source
    with pytest.raises(ValueError):
        parse_time(text)


def test_a_class_whose_json_clients_write_takes_no_wrong_value() -> None:
    """Kept in `extra`, a wrong size would leave a size of 0, and the object would seem to be empty."""
    object_info = {"name": "o", "bucket": "s", "size": "7", "novel": 1}
    with pytest.raises(InvalidResponseError, match="on a.b: size of ObjectInfo is wrong"):
        ObjectInfo.from_json(object_info, "a.b")
    with pytest.raises(InvalidResponseError, match="size of ObjectInfo is wrong"):
        ObjectInfo.from_json({**object_info, "size": -7}, "a.b")
    info = ObjectInfo.from_json({**object_info, "size": None, "revision": 9}, "a.b", revision=3)
    assert (info.size, info.revision) == (0, 3)  # `revision` is no part of the JSON
    assert info.extra == {"novel": 1, "revision": 9}


def test_what_was_read_has_defaults_of_its_own() -> None:
    one, other = (StreamConfig.from_json({"name": "a"}) for _ in range(2))
    assert one == other == StreamConfig("a") and one.metadata is not other.metadata
    assert pickle.loads(pickle.dumps(one)) == one == replace(one)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["subjects", "max_age", "mirror", "sources", "created", "metadata"])


@given(st.dictionaries(keys, json_values))
def test_any_json_comes_back_or_is_refused(json_object: dict[str, object]) -> None:
    try:
        config = StreamConfig.from_json({"name": "a", **json_object})
    except InvalidResponseError:  # an inner object without its name
        return
    again = StreamConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
