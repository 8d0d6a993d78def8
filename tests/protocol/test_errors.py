"""ProtocolError: one sentence with its place, facts as attributes, a short snippet, and it can be pickled."""

from __future__ import annotations

import pickle

import pytest

from natsync.protocol import Error, ProtocolError


@pytest.mark.parametrize(
    "error, text",
    [
        (ProtocolError("bad thing"), "bad thing"),
        (ProtocolError("bad thing", 0), "bad thing at byte 0"),
        (ProtocolError("bad thing", 7, b"\x00x"), "bad thing at byte 7: b'\\x00x'"),
        (ProtocolError("bad thing", None, b"x"), "bad thing: b'x'"),
    ],
)
def test_the_text_is_one_sentence_with_its_place(error: ProtocolError, text: str) -> None:
    assert str(error) == text


def test_the_snippet_is_short_and_plain_bytes() -> None:
    error = ProtocolError("bad thing", 1, b"x" * 1000)
    assert error.snippet == b"x" * 32


def test_it_survives_pickling() -> None:
    error = ProtocolError("bad thing", 5, b"abc")
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.offset, again.snippet) == ("bad thing", 5, b"abc")
    assert str(again) == str(error)


def test_it_is_a_natsync_error() -> None:
    assert issubclass(ProtocolError, Error)
    assert issubclass(Error, Exception)
