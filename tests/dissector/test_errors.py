"""CaptureError: one line that says which input, why, and what to do."""

from __future__ import annotations

import pickle

from dissect.nats.errors import CaptureError


def test_the_text_says_which_input_why_and_what_to_do() -> None:
    error = CaptureError("a.txt", "not a capture", "give pcap")
    assert str(error) == "a.txt: not a capture; give pcap"
    assert (error.path, error.reason, error.remedy) == ("a.txt", "not a capture", "give pcap")


def test_without_a_remedy_it_says_no_more() -> None:
    assert str(CaptureError("a.txt", "no such file")) == "a.txt: no such file"


def test_the_text_is_one_line_whatever_the_name() -> None:
    assert str(CaptureError("a\nb.txt", "no such file")) == "a b.txt: no such file"


def test_it_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CaptureError("a", "b", "c")))
    assert (error.path, error.reason, error.remedy) == ("a", "b", "c")
