"""Errors of buckets: their text, and that they survive pickling."""

import pickle

import pytest

from natsync import Error, kv

ERRORS: dict[str, Error] = {
    "invalid bucket name 'a.b': it may have letters A-Z and a-z, digits, '-' and '_' only": (
        kv.InvalidBucketNameError("a.b")
    ),
    "invalid key 'a..b': has an empty token": kv.InvalidKeyError("a..b", "has an empty token"),
    "bucket b not found": kv.BucketNotFoundError("b"),
    "bucket b exists with another configuration": kv.BucketExistsError("b"),
    "stream KV_b is not a key-value bucket: why": kv.BadBucketError("b", "why"),
    "key k not found in bucket b": kv.KeyNotFoundError("b", "k"),
    "key k has no revision 8 in bucket b": kv.KeyNotFoundError("b", "k", 8),
    "key k not found in bucket b: DEL at revision 7": kv.KeyDeletedError("b", "k", 7, "DEL"),
    "last revision of key k in bucket b is not 3, it is 7": kv.WrongLastRevisionError(
        "b", "k", 3, 7
    ),
    "last revision of key k in bucket b is not 3": kv.WrongLastRevisionError("b", "k", 3),
    "key k exists in bucket b": kv.KeyExistsError("b", "k"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_says_what_is_wrong_and_can_be_pickled(text: str) -> None:
    error = ERRORS[text]
    assert str(error) == text and isinstance(error, kv.KeyValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error)
    assert type(error).__module__ == "natsync.kv"


def test_a_key_that_is_not_there_is_a_key_error() -> None:
    assert issubclass(kv.KeyDeletedError, kv.KeyNotFoundError)
    assert issubclass(kv.KeyNotFoundError, KeyError)
