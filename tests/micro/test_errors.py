"""Errors of services: their text, and that they survive pickling."""

import pickle

import pytest

from natsync import Error
from natsync.micro import ServiceError, ServiceStoppedError

ERRORS = {
    "service error 404: no such order": ServiceError(404, "no such order", b"{}"),
    "service math has stopped": ServiceStoppedError("math"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_says_what_is_wrong_and_can_be_pickled(text: str) -> None:
    error = ERRORS[text]
    assert str(error) == text and isinstance(error, Error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error)
    assert type(error).__module__ == "natsync.micro"
