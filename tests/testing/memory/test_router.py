"""Who gets a message."""

from __future__ import annotations

from collections import Counter

from natsync.testing.memory.router import Interest, Message, Router


def test_all_that_match_and_one_of_each_group() -> None:
    router, got = Router(), Counter[str]()

    def receiver(name: str, pattern: bytes, queue: bytes = b"") -> Interest:
        def receive(message: Message) -> bool:
            got[name] += 1
            return True

        interest = Interest(pattern, receive, queue)
        router.add(interest)
        return interest

    receiver("literal", b"a.b")
    wild = receiver("wild", b"a.*")
    receiver("other", b"a.c")
    for name in ("first", "second"):
        receiver(name, b"a.>", b"group")
    for _ in range(100):
        assert router.publish(Message(b"a.b"))
    assert (got["literal"], got["wild"], got["other"]) == (100, 100, 0)
    assert got["first"] + got["second"] == 100 and min(got["first"], got["second"]) > 10
    router.remove(wild)
    router.publish(Message(b"a.b"))
    assert got["wild"] == 100
    assert not router.publish(Message(b"b"))


def test_who_does_not_take_it_is_nobody() -> None:
    router = Router()
    router.add(Interest(b">", lambda message: False))
    assert not router.publish(Message(b"a", b"reply"))
