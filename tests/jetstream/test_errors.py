"""Errors of JetStream: by err_code, with all facts, in one line, through pickling."""

from __future__ import annotations

import pickle

import pytest

import natsync
import natsync.jetstream
from natsync.jetstream import errors
from natsync.jetstream.errors import api_error

CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "api_error"]


def sample(kind: type[natsync.Error]) -> natsync.Error:
    values = {"code": 400, "err_code": 10001, "pending": 4, "stall": 0.5}
    return kind(**{name: values.get(name, name) for name in getattr(kind, "_names")})


@pytest.mark.parametrize("kind", CLASSES)
def test_it_is_public_and_survives_pickling(kind: type[natsync.Error]) -> None:
    error = sample(kind)
    assert isinstance(error, errors.JetStreamError) and isinstance(error, natsync.Error)
    assert getattr(natsync.jetstream, kind.__name__) is kind
    assert kind.__module__ == "natsync.jetstream"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), repr(again), str(again)) == (kind, repr(error), str(error))
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("code", "err_code", "kind"),
    [
        (404, 10059, errors.StreamNotFoundError),
        (404, 10014, errors.ConsumerNotFoundError),
        (400, 10149, errors.ConsumerNotFoundError),
        (400, 10148, errors.ConsumerExistsError),
        (503, 10039, errors.JetStreamNotEnabledError),
        (400, 10164, errors.WrongLastSequenceError),
        (400, 99999, errors.APIError),
    ],
)
def test_the_err_code_chooses_the_exception(
    code: int, err_code: int, kind: type[errors.APIError]
) -> None:
    error = api_error({"code": code, "err_code": err_code, "description": "no luck"})
    assert type(error) is kind
    assert (error.code, error.err_code, error.description) == (code, err_code, "no luck")
    assert str(error) == f"no luck (code {code}, err_code {err_code})"


def test_too_few_servers_are_insufficient_resources() -> None:
    """The number is also that of an unknown preferred leader."""
    for text, kind in (
        ("no suitable peers for placement, peer offline", errors.InsufficientResourcesError),
        ('preferred server "x" not known', errors.APIError),
    ):
        assert type(api_error({"code": 400, "err_code": 10005, "description": text})) is kind


@pytest.mark.parametrize("error", [None, "no", {}, {"code": "400", "err_code": None}])
def test_an_error_of_another_shape_is_an_error_still(error: object) -> None:
    assert str(api_error(error)) == "error without a description (code 500)"


def test_the_last_sequence_is_read_where_it_is_given() -> None:
    for text, seq in (
        ("wrong last sequence: 17", 17),
        ("wrong last sequence", None),
        ("wrong last sequence: " + "9" * 30, None),
    ):
        assert errors.WrongLastSequenceError(400, 10071, text).last_seq == seq


def test_a_text_shows_the_start_of_a_long_name() -> None:
    for kind in (
        errors.InvalidNameError,
        errors.InvalidStreamNameError,
        errors.InvalidConsumerNameError,
    ):
        assert len(str(kind("x" * 100_000, "is too long"))) < 150
