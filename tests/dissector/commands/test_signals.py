"""Ctrl-C while packets arrive."""

from __future__ import annotations

import io
import os
import signal
import sys

import pytest

from dissect.nats.commands.signals import ends_input


def test_the_first_ends_the_input_after_the_available_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
        os.write(write, b"there")
        with ends_input(live=True) as interrupted:
            assert not interrupted.yes
            signal.raise_signal(signal.SIGINT)
            assert interrupted.yes
            assert source.read1(100) == b"there"
            assert not source.read1(100)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_signals_end_it_if_the_caller_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with os.fdopen(read, "rb") as source, os.fdopen(write, "wb"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
            before = signal.getsignal(signal.SIGTERM)
            with ends_input(True, signal.SIGTERM, signal.SIGHUP) as interrupted:
                signal.raise_signal(signal.SIGHUP)  # as after nohup
                assert not interrupted.yes
                signal.raise_signal(signal.SIGTERM)
                assert interrupted.number == signal.SIGTERM and not source.read1(100)
            assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGHUP, ignored)


def test_it_interrupts_as_ever_where_no_packets_arrive() -> None:
    with ends_input(live=False) as interrupted, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not interrupted.yes


def test_a_handler_of_somebody_else_stays() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ends_input(live=True):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
