"""Names of stores and objects, and the streams and subjects that they become (ADR-20)."""

from __future__ import annotations

import base64
import re

from .._checks import check_text, plain
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

_STORE = re.compile(r"[A-Za-z0-9_-]+")


def check_store_name(store: str) -> str:
    """Returns `store`. Raises InvalidStoreNameError if it is not a valid name of an object store."""
    check_text(store=store)
    if not _STORE.fullmatch(store):
        raise InvalidStoreNameError(store)
    return plain(store)


def check_object_name(name: str) -> str:
    """Returns `name`. Every non-empty text is a valid name of an object, also one with bytes that are not
    UTF-8, as names of files have. Raises ProtocolError for any other lone surrogate."""
    check_text(name=name)
    if not name:
        raise InvalidObjectNameError
    to_wire(name)
    return name


def stream_name(store: str) -> str:
    """The stream of a store."""
    return STREAM_PREFIX + store


def chunk_subject(store: str, nuid: str) -> str:
    """The subject of all chunks of one upload."""
    return f"$O.{store}.C.{nuid}"


def meta_subject(store: str, name: str) -> str:
    """The subject of the description of an object. Its last token is the name in base64url with padding,
    as in all clients."""
    return f"$O.{store}.M.{base64.urlsafe_b64encode(to_wire(name)).decode()}"
