"""The status of a store."""

from dataclasses import replace

import pytest

from natsync.jetstream import JetStream
from natsync.object_store import ObjectStoreConfig, StoreNotFoundError

pytestmark = pytest.mark.server


def test_it_says_how_a_store_is_configured_and_how_full_it_is(js: JetStream, name: str) -> None:
    config = ObjectStoreConfig(
        name, description="reports", ttl=60, compression=True, metadata={"owner": "me"}
    )
    store = js.create_object_store(config)
    store.put("o", bytes(1000))
    status = store.status()
    assert (status.bucket, status.config, status.sealed) == (name, config, False)
    assert status.size > 1000 and status.info.config.name == f"OBJ_{name}"
    more = replace(status.config, ttl=120)
    assert js.update_object_store(more).status().config == more
    js.delete_object_store(name)
    with pytest.raises(StoreNotFoundError):
        store.status()
