"""The tree of subjects: volumes add up, and too many subjects become wildcards."""

from __future__ import annotations

from collections.abc import Iterable

from dissect.nats.report.answers import subjects_of
from dissect.nats.report.subjects import Branch, Subjects
from dissect.nats.schema.records import FrameRecord

from tests.support.audit import frame
from tests.support.report import engine_over


def message(subject: str, size: int, **columns: object) -> FrameRecord:
    return frame(1, subject=subject, payload_bytes=size, **columns)


def of(frames: Iterable[FrameRecord], limit: int = 4000) -> Subjects:
    with engine_over(frames) as engine:
        return subjects_of(engine, limit)


def children(branch: Branch) -> list[tuple[str, int, int]]:
    return [(item.subject, item.volume.messages, item.volume.bytes) for item in branch.ranked()]


def test_volumes_add_up_to_the_root() -> None:
    sizes = (("orders.eu.1", 10), ("orders.us", 20), ("a", 3), ("orders.eu.1", 5))
    frames = [message(subject, size) for subject, size in sizes]
    frames.append(message("orders.us", 20, sender="responder"))
    frames.append(message("orders.us", 20, kind="route"))
    root = of(frames).tree()
    assert children(root) == [("orders", 5, 75), ("a", 1, 3)]
    orders = root.ranked()[0]
    assert (orders.volume.published, orders.volume.delivered, orders.volume.passed) == (3, 1, 1)
    assert children(orders) == [("orders.us", 3, 60), ("orders.eu", 2, 15)]
    assert [item.subject for item in root.walk(2)] == ["orders", "orders.us", "orders.eu", "a"]


def test_many_subjects_become_wildcards_and_no_message_is_lost() -> None:
    frames = [message(f"sensor.{number % 7}.{number}", 1) for number in range(5000)]
    frames += [message("hot", 100) for _ in range(5000)]
    subjects = of(frames, 50)
    root = subjects.tree()
    assert len(subjects.volumes) <= 50 and subjects.merged
    assert root.volume.messages == 10_000
    assert children(root)[0] == ("hot", 5000, 500_000)
    assert {f"sensor.{number}.>" for number in range(7)} <= subjects.volumes.keys()


def test_a_subject_of_many_tokens_is_no_deep_tree() -> None:
    tree = of([message(".".join("x" * 2000), 1)]).tree()
    assert [item.subject.count(".") for item in tree.walk(2000)] == [0, 1, 2, 3, 4, 1999]


def test_thousands_of_devices_that_publish_under_names_of_their_own_become_wildcards() -> None:
    frames = [message(f"device{number}.temperature", 8) for number in range(500)]
    frames += [message(f"deep{number}" + ".a" * 1000, 8) for number in range(200)]
    subjects = of(frames, 40)
    assert subjects.tree().volume.messages == 700
    assert len(subjects.volumes) <= 40 and subjects.merged > 1
    assert ">" in subjects.tree().children


def test_the_wildcard_above_a_subject_of_many_tokens_has_few() -> None:
    frames = [message("a" + ".a" * 1000 + f".{number}", 1) for number in range(3)]
    wildcard, hot = of([*frames, message("hot", 10_000)], 2).volumes
    assert (wildcard.count("."), hot) == (16, "hot") or (hot.count("."), wildcard) == (16, "hot")
