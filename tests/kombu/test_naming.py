"""Names of kombu as names of NATS."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natsync.kombu.naming import Names, encode


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("celery", "celery"),
        ("celery@host.celery.pidbox", "celery=40host=2Ecelery=2Epidbox"),
        ("a b*>", "a=20b=2A=3E"),
        ("ü", "=C3=BC"),
        ("a=20b", "a=3D20b"),
        ("", "="),
    ],
)
def test_a_name_is_one_token(name: str, token: str) -> None:
    assert encode(name) == token


@given(st.text(), st.text())
def test_two_names_stay_two(one: str, other: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", encode(one))
    assert (encode(one) == encode(other)) == (one == other)


def test_a_virtual_host_has_queues_of_its_own() -> None:
    plain, hosted = Names("kombu", "/"), Names("kombu", "/shop.eu")
    assert plain.stream("celery") == "kombu_celery"
    assert hosted.stream("celery") == "kombu=shop=2Eeu_celery"
    assert hosted.subject("a.b") == "kombu=shop=2Eeu.a=2Eb"
    assert hosted.bucket("bindings") == "kombu-shop-2Eeu_bindings"
