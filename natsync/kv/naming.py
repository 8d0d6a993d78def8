"""Names of buckets, keys and filters, checked at the call (ADR-8); and the streams and subjects
they become."""

from __future__ import annotations

import re

from .._checks import check_text, is_restricted, plain
from .errors import InvalidBucketNameError, InvalidKeyError

__all__ = ["STREAM_PREFIX", "check_bucket", "check_filter", "check_key", "stream_name"]

STREAM_PREFIX = "KV_"

_RESERVED = "_kv"
_KEY = re.compile(rf"(?!{_RESERVED})[-/_=a-zA-Z0-9]+(?:\.[-/_=a-zA-Z0-9]+)*")
_FILTER = re.compile(r"(?:(?:[-/_=a-zA-Z0-9]+|\*)\.)*(?:[-/_=a-zA-Z0-9]+|\*|>)")
_CHARACTERS = re.compile(r"[-/_=.a-zA-Z0-9]*")


def check_bucket(bucket: str) -> str:
    """Returns `bucket`. Raises InvalidBucketNameError if it is not a valid name of a bucket."""
    check_text(bucket=bucket)
    if not is_restricted(bucket):
        raise InvalidBucketNameError(bucket)
    return plain(bucket)


def check_key(key: str) -> str:
    """Returns `key`. Raises InvalidKeyError if it has an invalid character or an empty token, or begins with
    `_kv`, which ADR-8 reserves."""
    if key.__class__ is not str:  # most are, and `isinstance` takes longer
        check_text(key=key)
    if _KEY.fullmatch(key):
        return key
    if _CHARACTERS.fullmatch(key) and key.startswith(_RESERVED):
        raise InvalidKeyError(key, f"begins with {_RESERVED}, which is reserved")
    raise InvalidKeyError(key, _reason(key, "letters A-Z and a-z, digits and -/_=."))


def check_filter(pattern: str) -> str:
    """Returns `pattern`, a key in which tokens may be `*` and the last token may be `>`. Raises
    InvalidKeyError."""
    check_text(filter=pattern)
    if not _FILTER.fullmatch(pattern):
        bare = re.sub(r"(?<![^.])[*](?![^.])|(?<![^.])>$", "x", pattern)
        raise InvalidKeyError(
            pattern, _reason(bare, "letters A-Z and a-z, digits, -/_=. and wildcards")
        )
    return pattern


def _reason(key: str, allowed: str) -> str:
    if not key:
        return "is empty"
    if _CHARACTERS.fullmatch(key):
        return "has an empty token"
    return f"has a character other than {allowed}"


def stream_name(bucket: str) -> str:
    """The stream of a bucket."""
    return STREAM_PREFIX + bucket
