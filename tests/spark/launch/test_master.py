"""What a master URL names; reaching one is tested in test_submit.py and test_standalone.py."""

from __future__ import annotations

import pytest

from dissect.nats.spark.launch.master import is_local, is_loopback


@pytest.mark.parametrize(
    "master, local, loopback",
    [
        ("local", True, True),
        ("local[*]", True, True),
        ("local[2,4]", True, True),
        ("local-cluster[1,1,1024]", False, False),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://localhost:7077", False, True),
        ("spark://[::1]:7077", False, True),
        ("spark://a:7077,b:7077", False, False),
        ("spark://localhost:7077,b:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://a:6443", False, False),
    ],
)
def test_who_takes_part(master: str, local: bool, loopback: bool) -> None:
    assert (is_local(master), is_loopback(master)) == (local, loopback)
