"""A program that forks in C, where none of Python's hooks run, while its threads use the connection and one
of them holds the client's lock. Parent and children each check that they get what is theirs.

    python -m tests.support.forked_in_c URL CALL

Another client answers requests on `echo` with their data, and those on `silent` not at all.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import natsync
from natsync.errors import ForkedError
from natsync.jetstream import ConsumerConfig, StreamConfig

CHILDREN, CALLS = 3, 40
FUTEX = {"x86_64": "202", "aarch64": "98"}

warnings.simplefilter("ignore", DeprecationWarning)
nc = natsync.connect(sys.argv[1])
js = nc.jetstream()
stream = js.create_stream(StreamConfig(name="S", subjects=["s.>"]))
# Of this subject alone: what a child publishes would wake the parent's I/O thread while it forks the next.
wanted = ConsumerConfig(durable_name="c", filter_subject="s.parent")
reader = stream.create_consumer(wanted).messages()
sub = nc.subscribe("news")
replies = nc.request_many("silent", timeout=60)
asked = nc.request_async("silent", timeout=60)
published = js.publish_async("s.parent", b"x")
published.result(20)
reader.next(20)
stream_of_replies = nc.open_replies("silent")
window = nc.open_window(8, lambda subject, payload: payload)
window.request("echo", b"w").result(20)
nc.publish("news", b"1")
nc.publish("news", b"2")
nc.flush()


def own(number: int) -> bytes:
    return f"{os.getpid()} {number}".encode()


def request() -> None:
    for number in range(CALLS):
        assert nc.request("echo", own(number), timeout=20).data == own(number)


def request_async() -> None:
    futures = [nc.request_async("echo", own(number), timeout=20) for number in range(CALLS)]
    assert [future.result().data for future in futures] == [*map(own, range(CALLS))]


def request_many() -> None:
    for number in range(CALLS):
        found = nc.request_many("echo", own(number), timeout=20, max_msgs=1)
        assert [msg.data for msg in found] == [own(number)]


def publish_async() -> None:
    assert js.publish_async_pending == 0
    acks = [js.publish_async("s.child", b"x").result(20) for _ in range(CALLS)]
    assert len({ack.seq for ack in acks}) == CALLS
    assert js.wait_all(20)


def subscribe() -> None:
    with nc.subscribe(f"own.{os.getpid()}") as mine:
        for number in range(CALLS):
            nc.publish(mine.subject, own(number))
            assert mine.next_msg(20).data == own(number)


def flush() -> None:
    nc.publish("nobody", b"x")
    nc.flush(20)
    nc.publish_confirmed("nobody", b"x", timeout=20)


def drain() -> None:
    nc.publish("nobody", b"x")
    nc.drain(20)


def close() -> None:
    nc.close()
    assert nc.status is natsync.Status.CLOSED


def exit_() -> None:
    sys.exit(0)


def refused(call: Callable[[], object]) -> None:
    try:
        call()
    except ForkedError:
        return
    raise AssertionError(f"{call} belongs to the parent")


def parents_objects() -> None:
    refused(lambda: sub.next_msg(20))
    refused(lambda: next(iter(sub)))
    refused(lambda: sub.drain(20))
    refused(lambda: next(replies))
    refused(lambda: asked.result(20))
    refused(lambda: stream_of_replies.request(b"x"))
    refused(lambda: stream_of_replies.next(20))
    refused(lambda: window.request("echo", b"x"))
    refused(lambda: reader.next(20))
    assert sub.closed and not sub.pending_msgs
    sub.unsubscribe()
    replies.close()
    stream_of_replies.close()
    assert asked.cancel()
    reader.stop()
    request()


PARENTS: dict[str, Callable[[], object]] = {
    "next_msg": lambda: sub.next_msg(20),
    "messages": lambda: next(sub.messages(20)),
    "pending": lambda: [sub.pending_msgs, sub.next_msg(20)],
    "replies": lambda: next(replies),
    "future": lambda: asked.result(20),
    "reply stream": lambda: stream_of_replies.request(b"x"),
    "window": lambda: window.request("echo", b"x"),
    "reader": lambda: reader.next(20),
}
CALL = {
    call.__name__: call
    for call in (request, request_async, request_many, publish_async, subscribe, flush, drain)
    + (close, exit_, parents_objects)
} | {name: lambda call=call: refused(call) for name, call in PARENTS.items()}


def quiet() -> bool:
    """True when no other thread runs, or waits for a lock, as Linux tells by the number of its system call.
    Where nothing tells, True."""
    if not Path("/proc/self/syscall").exists():
        return True
    others = set(os.listdir("/proc/self/task")) - {str(threading.get_native_id())}
    try:
        calls = {Path(f"/proc/self/task/{each}/syscall").read_text().split()[0] for each in others}
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just ended: `join` does not wait for that
    return not calls & {"running", FUTEX.get(platform.machine())}


@contextlib.contextmanager
def lock_held() -> Iterator[None]:
    """Another thread holds the client's lock meanwhile, and waits in the kernel."""
    held = threading.Event()
    release, free = os.pipe()

    def hold() -> None:
        with nc._connection.lock:
            held.set()
            os.read(release, 1)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait(20)
    parent = os.getpid()
    yield
    if os.getpid() == parent:
        os.write(free, b"x")
        thread.join()
    os.close(release)
    os.close(free)


def fork() -> int:
    """Forks while another thread holds the client's lock, and no thread waits for the GIL: its condition
    variable is copied with whoever waits, and in the child, where nobody ends that wait, the next switch of
    threads would hang. Nor may a thread ask for the GIL at the fork: the child would yield it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(30)
    pid: int | None = None
    while pid is None:
        with lock_held():
            time.sleep(0.01)  # the I/O thread may be about to take the lock: then once more
            if quiet():
                pid = ctypes.PyDLL(None).fork()
    sys.setswitchinterval(before)
    return pid


def main(call: Callable[[], None]) -> None:
    children = []
    for _ in range(CHILDREN):
        pid = fork()
        if not pid:
            call()
            if call is not exit_:
                os._exit(0)
        children.append(pid)
    asking = threading.Thread(target=request)
    asking.start()
    request_async()
    for pid in children:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    asking.join()
    assert [sub.next_msg(20).data for _ in range(2)] == [b"1", b"2"]
    js.publish("s.parent", b"last")
    assert any(msg.data == b"last" for msg in reader)
    nc.close()
    print("done")


if __name__ == "__main__":
    main(CALL[sys.argv[2]])
