"""Names of streams and consumers."""

from __future__ import annotations

import pytest

from natsync import OptionError, ProtocolError
from natsync._json import check_pattern
from natsync.jetstream import (
    ConsumerConfig,
    InvalidConsumerNameError,
    InvalidNameError,
    InvalidStreamNameError,
    JetStream,
    StreamConfig,
)
from natsync.jetstream.names import check_consumer_name, check_stream_name

GOOD = ["orders", "ORDERS-1_x", "bestellungen_für_köln", "x" * 255, "$G#1"]
BAD = ["", "a.b", "a b", "a*", ">", "a/b", "a\\b", "a\tb", "a\r\nb", "\x00", "\x7f", "x" * 256]


@pytest.mark.parametrize("name", GOOD)
def test_names_that_servers_take(name: str) -> None:
    assert check_stream_name(name) == check_consumer_name(name) == name


@pytest.mark.parametrize("name", [*BAD, "ä" * 128])
def test_names_that_they_refuse(name: str) -> None:
    with pytest.raises(InvalidStreamNameError, match="invalid stream name"):
        check_stream_name(name)
    with pytest.raises(InvalidConsumerNameError, match="invalid consumer name") as caught:
        check_consumer_name(name)
    assert isinstance(caught.value, InvalidNameError) and caught.value.name == name


def test_bytes_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="name must be str, not bytes"):
        check_stream_name(b"orders")  # type: ignore[arg-type]  # on purpose


def test_a_subject_that_json_cannot_carry_is_refused() -> None:
    """Otherwise the server would look for another subject, and find nothing."""
    check_pattern("größe.>")
    with pytest.raises(ProtocolError, match="not UTF-8, which JSON cannot carry"):
        check_pattern("a.\udcff")
    with pytest.raises(OptionError, match="option filter_subject: .* not UTF-8"):
        ConsumerConfig(filter_subject="a.\udcff")


@pytest.mark.server
def test_a_direct_get_finds_a_subject_that_is_not_utf_8(js: JetStream, stream_name: str) -> None:
    stream = js.create_stream(
        StreamConfig(stream_name, subjects=[f"{stream_name}.>"], allow_direct=True)
    )
    subject = f"{stream_name}.\udcff"
    js.publish(subject, b"1")
    assert stream.get_last_msg(subject, direct=True).subject == subject
    for call in (stream.get_last_msg, lambda subject: stream.purge(subject=subject)):
        with pytest.raises(ProtocolError, match="not UTF-8"):
            call(subject)
