"""Names of stores and objects, and the streams and subjects that they become (ADR-20)."""

from __future__ import annotations

import base64

from .._checks import check_text, is_restricted, plain
from ..message import to_wire
from .errors import InvalidObjectNameError, InvalidStoreNameError

__all__ = [
    "STREAM_PREFIX",
    "check_object_name",
    "check_store_name",
    "chunk_subject",
    "meta_subject",
    "stream_name",
]

STREAM_PREFIX = "OBJ_"


def check_store_name(bucket: str) -> str:
    """Returns `bucket`. Raises InvalidStoreNameError if it is not a valid name of an object store."""
    check_text(bucket=bucket)
    if not is_restricted(bucket):
        raise InvalidStoreNameError(bucket)
    return plain(bucket)


def check_object_name(name: str) -> str:
    """Returns `name`. Every non-empty text is a valid name of an object, also one with bytes that are not
    UTF-8, as names of files have. Raises ProtocolError for any other lone surrogate."""
    check_text(name=name)
    if not name:
        raise InvalidObjectNameError
    to_wire(name)
    return name


def stream_name(bucket: str) -> str:
    """The stream of a bucket."""
    return STREAM_PREFIX + bucket


def chunk_subject(bucket: str, nuid: str) -> str:
    """The subject of all chunks of one upload."""
    return f"$O.{bucket}.C.{nuid}"


def meta_subject(bucket: str, name: str) -> str:
    """The subject of the description of an object. Its last token is the name in base64url with padding,
    as in all clients."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(to_wire(name)).decode()}"
