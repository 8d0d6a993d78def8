"""The stream that a store becomes (ADR-20)."""

from __future__ import annotations

import pytest

from natsync import OptionError
from natsync.jetstream import Placement
from natsync.object_store import InvalidStoreNameError, ObjectStoreConfig
from natsync.object_store.config import stream_config


def test_the_stream_is_that_of_adr_20() -> None:
    made = stream_config(ObjectStoreConfig("s"))
    assert (made.name, made.subjects) == ("OBJ_s", ("$O.s.C.>", "$O.s.M.>"))
    assert made.allow_rollup_hdrs and made.allow_direct and made.discard == "new"
    assert (made.max_age, made.max_bytes, made.storage, made.num_replicas) == (0, -1, "file", 1)
    assert made.max_msgs_per_subject == -1 and made.compression == "none"


def test_every_option_reaches_the_stream() -> None:
    made = stream_config(
        ObjectStoreConfig(
            "s",
            description="reports",
            ttl=60,
            max_bytes=1000,
            storage="memory",
            replicas=3,
            placement=Placement(cluster="east"),
            compression=True,
            metadata={"owner": "me"},
        )
    )
    assert (made.description, made.max_age, made.max_bytes) == ("reports", 60, 1000)
    assert (made.storage, made.num_replicas, made.compression) == ("memory", 3, "s2")
    assert (made.placement, made.metadata) == (Placement(cluster="east"), {"owner": "me"})


def test_what_makes_no_store_is_refused() -> None:
    with pytest.raises(InvalidStoreNameError):
        ObjectStoreConfig("a.b")
    with pytest.raises(OptionError, match="ttl"):
        ObjectStoreConfig("s", ttl=-1)
    with pytest.raises(TypeError, match="max_bytes must be int"):
        ObjectStoreConfig("s", max_bytes="1GB")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(OptionError, match="storage: must be file or memory, not 'disk'"):
        ObjectStoreConfig("s", storage="disk")  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(OptionError, match="replicas: must be at least 0, not -1"):
        ObjectStoreConfig("s", replicas=-1)
