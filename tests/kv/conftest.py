"""A bucket for each test, on the server that all tests share."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from natsync.jetstream import JetStream
from natsync.kv import KeyValue, KeyValueConfig


@pytest.fixture
def bucket(request: pytest.FixtureRequest, js: JetStream) -> Iterator[str]:
    """A name that no other test uses; buckets of this name, and of those that begin with it, are deleted."""
    name = re.sub(r"\W", "_", request.node.name)
    yield name
    for found in [*js.key_value_names()]:
        if found.startswith(name):
            js.delete_key_value(found)


@pytest.fixture
def kv(js: JetStream, bucket: str) -> KeyValue:
    """A bucket that keeps ten values of each key."""
    return js.create_key_value(KeyValueConfig(bucket, history=10, storage="memory"))
