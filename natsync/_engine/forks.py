"""Forks: a forked child has copies of its parent's clients, whose threads exist only in the parent, and whose
sockets belong to it.

The child must not use any part of them, not even their locks, which a thread of the parent may have held at
the fork. Python's hooks for forks are not enough: uWSGI and libraries fork in C, where nobody calls them
(unbit/uwsgi#1978). So each call of a client or subscription begins with

    if not same_process[0]:
        notice_fork()

On Linux this is a look at a page of memory that the kernel clears in a child (MADV_WIPEONFORK, Linux 4.14).
It takes 0.04 us where a comparison of process ids takes 0.3 (CPython 3.11).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from .._late import LateImport, late_import

__all__ = ["notice_fork", "same_process", "watch"]

_WIPE_ON_FORK = 18  # MADV_WIPEONFORK, for which `mmap` has no name
_UNKNOWN = -1


_T = TypeVar("_T")


class _Flag(Protocol):
    """A flag as item 0."""

    def __getitem__(self, index: int, /) -> int: ...
    def __setitem__(self, index: int, value: int, /) -> None: ...


class ProcessFlag:
    """The flag where no memory can be cleared: it compares process ids."""

    def __init__(self) -> None:
        self._process = 0

    def __getitem__(self, _: int, /) -> int:
        return self._process == os.getpid()

    def __setitem__(self, _: int, value: int, /) -> None:
        self._process = os.getpid()


def cleared_memory() -> memoryview | None:
    """Returns memory that is empty after a fork; None if the system has none."""
    if sys.platform != "linux":
        return None
    import mmap

    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        page.madvise(_WIPE_ON_FORK)
    except OSError:  # an older kernel
        return None
    with suppress(OSError):
        page.madvise(_UNKNOWN)
        return None  # an emulator that takes any advice and ignores it, as QEMU did (qemu#343)
    return memoryview(page)  # reading it is faster than reading `page`


same_process: _Flag = cleared_memory() or ProcessFlag()
"""Whether this process has called `notice_fork`: item 0. A child finds it false."""

_watched: weakref.WeakKeyDictionary[object, Callable[..., None]] = weakref.WeakKeyDictionary()
_locks: dict[int, threading.RLock] = {}  # by process: a thread of the parent may hold the parent's


def watch(owner: _T, inherit: Callable[[_T], None]) -> None:
    """Makes every forked child call `inherit(owner)`, perhaps more than once, before it uses anything of its
    parent. It must not wait for anything."""
    _watched[owner] = inherit


def notice_fork() -> None:
    """Makes what belongs to the parent this child's. Other threads of the child wait until that is done."""
    with _locks.setdefault(os.getpid(), threading.RLock()):
        if not same_process[0]:
            for owner, inherit in list(_watched.items()):
                inherit(owner)
            same_process[0] = 1


same_process[0] = 1
watch(late_import, LateImport.inherit)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=notice_fork)  # early, where that is possible
