"""A store for each test, on the server that all tests share."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from natsync.jetstream import JetStream
from natsync.object_store import ObjectStore, ObjectStoreConfig


@pytest.fixture
def name(request: pytest.FixtureRequest, js: JetStream) -> Iterator[str]:
    """A name that no other test uses; stores of this name, and of those that begin with it, are deleted."""
    made = re.sub(r"\W", "_", request.node.name)
    yield made
    for found in [*js.object_store_names()]:
        if found.startswith(made):
            js.delete_object_store(found)


@pytest.fixture
def store(js: JetStream, name: str) -> ObjectStore:
    """An empty store, in memory."""
    return js.create_object_store(ObjectStoreConfig(name, storage="memory"))
