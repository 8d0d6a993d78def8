"""Subjects that are used only once have one name."""

from __future__ import annotations

import pytest

from dissect.nats.subjects import generic


@pytest.mark.parametrize(
    "subject, name",
    [
        ("_INBOX.abc.1", "_INBOX.>"),
        ("$JS.ACK.ORDERS.worker.1.2.3.4.5", "$JS.ACK.>"),
        ("$JS.FC.ORDERS.worker.x", "$JS.FC.>"),
        ("_R_.abc.1", "_R_.>"),
        ("_GR_.a.b.c", "_GR_.>"),
        ("$JS.API.STREAM.NAMES", "$JS.API.STREAM.NAMES"),
        ("_INBOX", "_INBOX"),
        ("orders.new", "orders.new"),
        ("", ""),
    ],
)
def test_a_subject_for_one_use_is_a_wildcard(subject: str, name: str) -> None:
    assert generic(subject) == name
