"""The tree of subjects: volumes add up, and too many subjects become wildcards."""

from __future__ import annotations

from dissect.nats.report.aggregates.subjects import Branch, Subjects, parent
from dissect.nats.schema.records import FrameRecord


def message(
    subject: str, size: int, kind: str = "client", sender: str = "originator"
) -> FrameRecord:
    return FrameRecord(
        session="00" * 8,
        number=1,
        ts_ns=1,
        packet=1,
        capture="a.pcap",
        sender=sender,
        kind=kind,
        op="PUB",
        subject=subject,
        payload_bytes=size,
        total_bytes=size,
        offset=0,
    )


def children(branch: Branch) -> list[tuple[str, int, int]]:
    return [(item.subject, item.volume.messages, item.volume.bytes) for item in branch.ranked()]


def test_volumes_add_up_to_the_root() -> None:
    subjects = Subjects()
    for subject, size in (("orders.eu.1", 10), ("orders.us", 20), ("a", 3), ("orders.eu.1", 5)):
        subjects.add(message(subject, size))
    subjects.add(message("orders.us", 20, sender="responder"))
    subjects.add(message("orders.us", 20, kind="route"))
    root = subjects.tree()
    assert children(root) == [("orders", 5, 75), ("a", 1, 3)]
    orders = root.ranked()[0]
    assert (orders.volume.published, orders.volume.delivered, orders.volume.passed) == (3, 1, 1)
    assert children(orders) == [("orders.us", 3, 60), ("orders.eu", 2, 15)]
    assert [item.subject for item in root.walk(2)] == ["orders", "orders.us", "orders.eu", "a"]


def test_wildcards_above_a_subject() -> None:
    assert [parent("a.b.c"), parent("a.b.>"), parent("a.>"), parent(">")] == [
        "a.b.>",
        "a.>",
        ">",
        ">",
    ]


def test_many_subjects_become_wildcards_and_no_message_is_lost() -> None:
    subjects = Subjects(limit=50)
    for number in range(5000):
        subjects.add(message(f"sensor.{number % 7}.{number}", 1))
        subjects.add(message("hot", 100))
    root = subjects.tree()
    assert subjects.count <= 100 and subjects.merged
    assert root.volume.messages == 10_000
    assert children(root)[0] == ("hot", 5000, 500_000)


def test_a_subject_of_many_tokens_is_no_deep_tree() -> None:
    subjects = Subjects()
    subjects.add(message(".".join("x" * 2000), 1))
    assert [item.subject.count(".") for item in subjects.tree().walk(2000)] == [0, 1, 2, 3, 4, 1999]


def test_thousands_of_devices_that_publish_under_names_of_their_own_become_wildcards() -> None:
    subjects = Subjects(limit=40)
    for number in range(500):
        subjects.add(message(f"device{number}.temperature", 8))
    for number in range(200):
        subjects.add(message(f"deep{number}" + ".a" * 1000, 8))
    assert subjects.tree().volume.messages == 700
    assert subjects.count <= 80 and subjects.merged > 0
    assert ">" in subjects.tree().children


def test_the_wildcard_above_a_subject_of_many_tokens_has_few() -> None:
    assert parent("a.b.c") == "a.b.>" and parent("a.b.>") == "a.>" and parent("a") == ">"
    assert parent("a" + ".a" * 1000).count(".") == 16
