"""Errors of object stores: their text, and that they survive pickling."""

import pickle

import pytest

from natsync import Error
from natsync import object_store as obj

ERRORS: dict[str, Error] = {
    "invalid object store name 'a.b': it may have letters A-Z and a-z, digits, '-' and '_' only": (
        obj.InvalidStoreNameError("a.b")
    ),
    "an object's name must not be empty": obj.InvalidObjectNameError(),
    "object store s not found": obj.StoreNotFoundError("s"),
    "object store s exists with another configuration": obj.StoreExistsError("s"),
    "object 'o' in store s not found": obj.ObjectNotFoundError("s", "o"),
    "object 'o' in store s exists": obj.ObjectExistsError("s", "o"),
    "object 'o' in store s was deleted: its metadata cannot be updated": (
        obj.UpdateMetaDeletedError("s", "o")
    ),
    "object 'o' in store s has invalid metadata: no JSON": obj.BadObjectMetaError(
        "s", "o", "no JSON"
    ),
    "object 'o' in store s is truncated: 1 of 3 chunks, 10 of 25 bytes": (
        obj.TruncatedObjectError("s", "o", 1, 3, 10, 25)
    ),
    "object 'o' in store s is corrupt: its digest does not match": obj.DigestMismatchError(
        "s", "o"
    ),
    "object 'o' in store s cannot be linked to: it was deleted": (
        obj.LinkNotAllowedError("s", "o", "it was deleted")
    ),
    "object 'o' in store s is a link to the store t, which is not an object": (
        obj.CannotGetBucketLinkError("s", "o", "t")
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_says_what_is_wrong_and_can_be_pickled(text: str) -> None:
    error = ERRORS[text]
    assert str(error) == text and isinstance(error, obj.ObjectStoreError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error)
    assert type(error).__module__ == "natsync.object_store"
