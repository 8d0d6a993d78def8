"""`ObjectInfo`: the description of an object, stored as JSON on its subject (ADR-20); and
`ObjectMeta`, the part of it that users set.

Clients differ, so the reader is lenient: it does not use the time in the JSON, ignores unknown fields,
and takes null for absent. A value of the wrong type raises BadObjectMetaError.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import TypeVar

from .._checks import check_count, check_text
from ..errors import OptionError
from .errors import BadObjectMetaError
from .naming import check_object_name

__all__ = ["DEFAULT_CHUNK_SIZE", "ObjectInfo", "ObjectLink", "ObjectMeta", "digest_of", "read_info"]

DEFAULT_CHUNK_SIZE = 128 * 1024
_DIGEST = "SHA-256="

_T = TypeVar("_T")


@dataclass(frozen=True)
class ObjectLink:
    """The target of a link: an object, or a whole store if `name` is empty."""

    bucket: str
    name: str = ""


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


@dataclass(frozen=True)
class ObjectInfo:
    """The description of an object: the part from the user, and facts about the stored content. `size` is
    in bytes; `mtime` is the time of storing, in UTC; `digest` is `SHA-256=` followed by the digest in
    base64url. A link has a `link` and no content.
    """

    name: str
    bucket: str
    nuid: str
    _: KW_ONLY
    size: int = 0
    chunks: int = 0
    digest: str = ""
    mtime: datetime | None = None
    deleted: bool = False
    description: str = ""
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    link: ObjectLink | None = None
    max_chunk_size: int = 0
    revision: int = 0
    """The sequence of the description in the stream; 0 if unknown."""

    def to_json(self) -> bytes:
        """The JSON to store. It has no time, since readers take the time of the message (ADR-20)."""
        json_object: dict[str, object] = {"name": self.name}
        options: dict[str, object] = {}
        if self.link:
            name = {"name": self.link.name} if self.link.name else {}
            options["link"] = {"bucket": self.link.bucket, **name}
        if self.max_chunk_size:
            options["max_chunk_size"] = self.max_chunk_size
        for key, value in (
            ("description", self.description),
            ("headers", {name: list(values) for name, values in self.headers.items()}),
            ("metadata", dict(self.metadata)),
            ("options", options),
        ):
            if value:
                json_object[key] = value
        json_object |= {
            "bucket": self.bucket,
            "nuid": self.nuid,
            "size": self.size,
            "chunks": self.chunks,
        }
        if self.digest:
            json_object["digest"] = self.digest
        if self.deleted:
            json_object["deleted"] = True
        return json.dumps(json_object).encode()


def digest_of(sha256: bytes) -> str:
    """A digest in the form in which it is stored."""
    return _DIGEST + base64.urlsafe_b64encode(sha256).decode()


def read_digest(store: str, name: str, digest: str) -> bytes:
    """The SHA-256 in a stored digest. Clients write the word before `=` in upper or lower case. Raises
    BadObjectMetaError."""
    algorithm, equals, encoded = digest.partition("=")
    try:
        if not equals or algorithm.upper() != "SHA-256":
            raise ValueError
        found = base64.b64decode(encoded.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise BadObjectMetaError(store, name, f"digest {digest[:64]!r} is not a SHA-256") from None
    if len(found) != 32:
        raise BadObjectMetaError(store, name, f"digest {digest[:64]!r} is not a SHA-256")
    return found


def read_info(
    store: str, subject: str, data: bytes, mtime: datetime | None, revision: int
) -> ObjectInfo:
    """The description in a message on `subject`. Raises BadObjectMetaError if it is not one."""
    fields = _Fields(store, _name_in(subject), data)
    options = fields.inner("options")
    link = options.inner("link") if options.has("link") else None
    return ObjectInfo(
        fields.get("name", ""),
        fields.get("bucket", store),
        fields.get("nuid", ""),
        size=fields.get("size", 0),
        chunks=fields.get("chunks", 0),
        digest=fields.get("digest", ""),
        mtime=mtime,
        deleted=fields.get("deleted", False),
        description=fields.get("description", ""),
        headers=fields.headers(),
        metadata=fields.metadata(),
        link=ObjectLink(link.get("bucket", ""), link.get("name", "")) if link else None,
        max_chunk_size=options.get("max_chunk_size", 0),
        revision=revision,
    )


def _name_in(subject: str) -> str:
    """The name of the object with this subject, for the text of an error."""
    encoded = subject.rpartition(".")[2]
    try:
        return base64.urlsafe_b64decode(encoded).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return encoded


class _Fields:
    """The fields of a JSON object. An error names the field that is wrong."""

    def __init__(self, store: str, name: str, data: bytes | dict[str, object]) -> None:
        self._store = store
        self._name = name
        if isinstance(data, dict):
            self._fields = data
            return
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise BadObjectMetaError(store, name, "no JSON") from None
        if not isinstance(found, dict):
            raise BadObjectMetaError(store, name, "no JSON object")
        self._fields = found
        self.get("name", "")  # fields without a default
        if not self._fields.get("name"):
            raise BadObjectMetaError(store, name, "no name")

    def has(self, key: str) -> bool:
        return self._fields.get(key) is not None

    def get(self, key: str, default: _T) -> _T:
        """The field `key`, or `default` if it is absent."""
        value = self._fields.get(key)
        if value is None:
            return default
        if type(value) is not type(default) or isinstance(value, int) and value < 0:
            raise BadObjectMetaError(self._store, self._name, f"{key} is wrong")
        return value

    def inner(self, key: str) -> _Fields:
        return _Fields(self._store, self._name, self.get(key, dict[str, object]()))

    def metadata(self) -> dict[str, str]:
        found = self.get("metadata", dict[str, str]())
        if not all(isinstance(value, str) for value in found.values()):
            raise BadObjectMetaError(self._store, self._name, "metadata is wrong")
        return found

    def headers(self) -> dict[str, Sequence[str]]:
        """A map of names to lists of values. Users of nats.py may have stored a single value."""
        found: dict[str, Sequence[str]] = {}
        for name, values in self.get("headers", dict[str, object]()).items():
            if values is None:
                continue
            several = [values] if isinstance(values, str) else values
            if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
                raise BadObjectMetaError(self._store, self._name, "headers is wrong")
            found[name] = several
        return found
