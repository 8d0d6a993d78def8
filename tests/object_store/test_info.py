"""Descriptions of objects: written as ADR-20 says, read as others write them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from natsync import OptionError
from natsync.object_store import (
    BadObjectMetaError,
    ObjectInfo,
    ObjectLink,
    ObjectMeta,
    ObjectOptions,
)
from natsync.object_store.info import digest_of, read_digest, read_info

EMPTY = "SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
SUBJECT = "$O.s.M.by50eHQ="  # o.txt
TIME = datetime(2026, 11, 22, tzinfo=timezone.utc)


def test_what_is_written_is_read() -> None:
    info = ObjectInfo(
        "o.txt",
        "s",
        "NUID",
        size=7,
        chunks=2,
        digest=EMPTY,
        description="text",
        headers={"A": ["1", "2"]},
        metadata={"k": "v"},
        options=ObjectOptions(max_chunk_size=4),
    )
    assert info.to_json() == {
        "name": "o.txt",
        "description": "text",
        "headers": {"A": ["1", "2"]},
        "metadata": {"k": "v"},
        "options": {"max_chunk_size": 4},
        "bucket": "s",
        "nuid": "NUID",
        "size": 7,
        "chunks": 2,
        "digest": EMPTY,
    }
    read = read_info("s", SUBJECT, json.dumps(info.to_json()).encode(), TIME, 3)
    assert (read.name, read.size, read.headers, read.mtime, read.revision) == (
        "o.txt",
        7,
        {"A": ("1", "2")},
        TIME,
        3,
    )
    link = ObjectInfo("l", "s", "N", options=ObjectOptions(link=ObjectLink("t", "o")))
    assert link.to_json()["options"] == {"link": {"bucket": "t", "name": "o"}}
    assert read_info("s", SUBJECT, json.dumps(link.to_json()).encode(), TIME, 1).link == ObjectLink(
        "t", "o"
    )
    whole = ObjectInfo("l", "s", "N", options=ObjectOptions(link=ObjectLink("t")), deleted=True)
    assert whole.to_json()["options"] == {"link": {"bucket": "t"}}
    assert read_info("s", SUBJECT, json.dumps(whole.to_json()).encode(), TIME, 1).deleted


def test_others_write_null_a_time_and_single_headers() -> None:
    theirs = {
        "name": "o",
        "description": None,
        "headers": {"A": "1", "B": None},  # Go writes null for a header without values
        "options": None,
        "bucket": "s",
        "nuid": "N",
        "size": 0,
        "mtime": "0001-01-01T00:00:00Z",
        "chunks": 0,
        "deleted": False,
        "of_the_future": 1,
    }
    info = read_info("s", SUBJECT, json.dumps(theirs).encode(), TIME, 1)
    assert (info.headers, info.mtime, info.link, info.description) == (
        {"A": ("1",)},
        TIME,
        None,
        "",
    )


def test_what_a_newer_client_says_is_stored_again() -> None:
    theirs = {"name": "o", "bucket": "s", "nuid": "N", "size": 1, "chunks": 1, "novel": [1]}
    theirs["options"] = {"max_chunk_size": 4, "novel": 2}
    info = read_info("s", SUBJECT, json.dumps(theirs | {"mtime": "yesterday"}).encode(), TIME, 1)
    assert replace(info, deleted=True).to_json() == theirs | {"deleted": True}


@pytest.mark.parametrize(
    "wrong, reason",
    [
        (b"", "0 bytes that are not JSON"),
        (b"[" * 100_000, "100000 bytes that are not JSON"),
        (b"[]", "JSON that is not an object"),
        (b"{}", "ObjectInfo without name"),
        (b'{"name": ""}', "no name"),
        (b'{"name": 1}', "name of ObjectInfo is wrong"),
        (b'{"name": "o", "size": -1}', "size of ObjectInfo is wrong"),
        (b'{"name": "o", "size": 1.5}', "size of ObjectInfo is wrong"),
        (b'{"name": "o", "chunks": true}', "chunks of ObjectInfo is wrong"),
        (b'{"name": "o", "options": 1}', "no ObjectOptions, but int"),
        (b'{"name": "o", "options": {"link": []}}', "no ObjectLink, but list"),
        (b'{"name": "o", "metadata": {"a": 1}}', "metadata of ObjectInfo is wrong"),
        (b'{"name": "o", "headers": {"a": [1]}}', "headers of ObjectInfo is wrong"),
    ],
)
def test_what_is_wrong_is_named(wrong: bytes, reason: str) -> None:
    with pytest.raises(BadObjectMetaError) as caught:
        read_info("s", SUBJECT, wrong, TIME, 1)
    assert str(caught.value) == f"object 'o.txt' in store s has invalid metadata: {reason}"


def test_a_subject_that_is_no_base64_is_reported_as_it_is() -> None:
    with pytest.raises(BadObjectMetaError, match="object 'x' in store s"):
        read_info("s", "$O.s.M.x", b"", TIME, 1)


def test_a_digest_is_read_or_refused() -> None:
    sha256 = hashlib.sha256(b"").digest()
    assert digest_of(sha256) == EMPTY
    assert read_digest("s", "o", EMPTY) == read_digest("s", "o", EMPTY.lower()[:8] + EMPTY[8:])
    assert read_digest("s", "o", EMPTY) == sha256
    for wrong in ("", "SHA-256", "MD5=AAAA", "SHA-256=AAAA", "SHA-256=?", "SHA-256=ä"):
        with pytest.raises(BadObjectMetaError, match="is not a SHA-256"):
            read_digest("s", "o", wrong)


def test_what_makes_no_object_is_refused() -> None:
    with pytest.raises(OptionError, match="max_chunk_size"):
        ObjectMeta("o", max_chunk_size=0)
    with pytest.raises(TypeError, match="headers map str to lists"):
        ObjectMeta("o", headers={"a": "1"})
    with pytest.raises(TypeError, match="metadata must be str"):
        ObjectMeta("o", metadata={"a": 1})  # type: ignore[dict-item]  # a wrong call
    for wrong in (None, ["a"], {1: ["a"]}):
        with pytest.raises(TypeError, match="headers must be a mapping of str, not "):
            ObjectMeta("o", headers=wrong)  # type: ignore[arg-type]  # a wrong call
        with pytest.raises(TypeError, match="metadata must be a mapping of str, not "):
            ObjectMeta("o", metadata=wrong)  # type: ignore[arg-type]  # a wrong call
