"""Names of buckets, keys and filters (ADR-8)."""

import pytest

from natsync.kv import InvalidBucketNameError, InvalidKeyError
from natsync.kv.naming import check_bucket, check_filter, check_key, stream_name


def test_names_of_buckets() -> None:
    assert check_bucket("My-Bucket_1") == "My-Bucket_1"
    assert stream_name("b") == "KV_b"
    for wrong in ("", "a.b", "a b", "a*", ">", "größe", "a\n"):
        with pytest.raises(InvalidBucketNameError):
            check_bucket(wrong)
    with pytest.raises(TypeError, match="bucket must be str"):
        check_bucket(7)  # type: ignore[arg-type]  # a wrong call


@pytest.mark.parametrize("key", ["a", "a.b.c", "A/b_c=d-9", "=", "k_kv"])
def test_valid_keys_are_returned(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    "key, reason",
    [
        ("", "is empty"),
        (".a", "empty token"),
        ("a.", "empty token"),
        ("a..b", "empty token"),
        ("a b", "has a character other than"),
        ("a*", "has a character other than"),
        ("a.>", "has a character other than"),
        ("ключ", "has a character other than"),
        ("a\n", "has a character other than"),
        ("_kv.a", "begins with _kv, which is reserved"),
    ],
)
def test_other_keys_are_refused(key: str, reason: str) -> None:
    with pytest.raises(InvalidKeyError, match=reason):
        check_key(key)


@pytest.mark.parametrize("pattern", ["a", ">", "*", "a.*", "*.b.>", "a.*.c"])
def test_valid_filters_are_returned(pattern: str) -> None:
    assert check_filter(pattern) == pattern


@pytest.mark.parametrize(
    "pattern, reason",
    [
        ("", "is empty"),
        ("a*", "has a character other than"),
        (">.a", "has a character other than"),
        ("a.>b", "has a character other than"),
        ("a..*", "empty token"),
        ("*.", "empty token"),
    ],
)
def test_other_filters_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidKeyError, match=reason):
        check_filter(pattern)
