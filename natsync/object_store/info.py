"""`ObjectInfo`: the description of an object, stored as JSON on its subject (ADR-20); and
`ObjectMeta`, the part of it that users set.

Clients differ, so the reader is lenient: it does not use the time in the JSON, keeps unknown fields, and
takes null for absent. A value of the wrong type raises BadObjectMetaError.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import ClassVar

from .._checks import check_count, check_text
from .._json import JSONObject, decode_object, unsent, within
from ..errors import InvalidResponseError, OptionError
from .errors import BadObjectMetaError
from .naming import check_object_name

__all__ = [
    "DEFAULT_CHUNK_SIZE",
    "ObjectInfo",
    "ObjectLink",
    "ObjectMeta",
    "ObjectOptions",
    "digest_of",
    "read_info",
]

DEFAULT_CHUNK_SIZE = 128 * 1024
_DIGEST = "SHA-256="


@dataclass(frozen=True, slots=True, repr=False)
class ObjectLink(JSONObject):
    """The target of a link: an object, or a whole store if `name` is empty."""

    _strict: ClassVar[bool] = True

    bucket: str
    name: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ObjectOptions(JSONObject):
    """The target of a link; and the size of the chunks, in bytes."""

    _strict: ClassVar[bool] = True

    _: KW_ONLY
    link: ObjectLink | None = None
    max_chunk_size: int = within(0, 0)


@dataclass(frozen=True)
class ObjectMeta:
    """The part of a description that the user sets. `max_chunk_size` is in bytes; chunks are
    smaller where the server takes no message of this size."""

    name: str
    _: KW_ONLY
    description: str = ""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    max_chunk_size: int = DEFAULT_CHUNK_SIZE

    def __post_init__(self) -> None:
        check_object_name(self.name)
        check_text(description=self.description)
        check_count(max_chunk_size=self.max_chunk_size)
        if self.max_chunk_size < 1:
            raise OptionError("max_chunk_size", "must be at least 1")
        for what, value in (("headers", self.headers), ("metadata", self.metadata)):
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                raise TypeError(f"{what} must be a mapping of str, not {type(value).__name__}")
        for values in self.headers.values():
            if isinstance(values, str) or not all(isinstance(value, str) for value in values):
                raise TypeError("headers map str to lists of str")
        for text in self.metadata.values():
            check_text(metadata=text)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectInfo(JSONObject):
    """The description of an object: the part from the user, and facts about the stored content. `size` is
    in bytes; `mtime` is the time of storing, in UTC; `digest` is `SHA-256=` followed by the digest in
    base64url. A link has a `link` and no content. `revision` is the sequence of the description in the
    stream; 0 if unknown.
    """

    _strict: ClassVar[bool] = True
    _always: ClassVar[frozenset[str]] = frozenset({"nuid", "size", "chunks"})

    name: str
    bucket: str
    nuid: str = ""
    _: KW_ONLY
    size: int = within(0, 0)
    chunks: int = within(0, 0)
    digest: str = ""
    mtime: datetime | None = unsent(None)
    deleted: bool = False
    description: str = ""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    options: ObjectOptions = field(default_factory=ObjectOptions)
    revision: int = unsent(0)

    @property
    def link(self) -> ObjectLink | None:
        """The target, if it is a link."""
        return self.options.link

    @property
    def max_chunk_size(self) -> int:
        """The size of its chunks in bytes; 0 if unknown."""
        return self.options.max_chunk_size


def digest_of(sha256: bytes) -> str:
    """A digest in the form in which it is stored."""
    return _DIGEST + base64.urlsafe_b64encode(sha256).decode()


def read_digest(bucket: str, name: str, digest: str) -> bytes:
    """The SHA-256 in a stored digest. Clients write the word before `=` in upper or lower case. Raises
    BadObjectMetaError."""
    algorithm, equals, encoded = digest.partition("=")
    try:
        if not equals or algorithm.upper() != "SHA-256":
            raise ValueError
        found = base64.b64decode(encoded.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise BadObjectMetaError(bucket, name, f"digest {digest[:64]!r} is not a SHA-256") from None
    if len(found) != 32:
        raise BadObjectMetaError(bucket, name, f"digest {digest[:64]!r} is not a SHA-256")
    return found


def read_info(
    bucket: str, subject: str, data: bytes, mtime: datetime | None, revision: int
) -> ObjectInfo:
    """The description in a message on `subject`. Raises BadObjectMetaError if it is not one."""
    try:
        fields = decode_object(data, subject)
        fields.pop("mtime", None)
        fields["bucket"] = bucket if fields.get("bucket") is None else fields["bucket"]
        headers = fields.get("headers")
        if isinstance(headers, dict):  # nats.py stores a single value, and Go null for no values
            fields["headers"] = {
                name: [values] if isinstance(values, str) else values
                for name, values in headers.items()
                if values is not None
            }
        info = ObjectInfo.from_json(fields, subject, mtime=mtime, revision=revision)
    except InvalidResponseError as error:
        raise BadObjectMetaError(bucket, _name_in(subject), error.reason) from error
    if not info.name:
        raise BadObjectMetaError(bucket, _name_in(subject), "no name")
    return info


def _name_in(subject: str) -> str:
    """The name of the object with this subject, for the text of an error."""
    encoded = subject.rpartition(".")[2]
    try:
        return base64.urlsafe_b64decode(encoded).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return encoded
