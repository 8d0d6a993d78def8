"""Names of streams and consumers."""

from __future__ import annotations

import pytest

from natsync.jetstream import InvalidConsumerNameError, InvalidNameError, InvalidStreamNameError
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
