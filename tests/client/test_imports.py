"""The names of `natsync`, and what is loaded with them."""

from __future__ import annotations

import pickle
import pydoc
import re
import subprocess
import sys
from functools import partial
from inspect import ismodule

import pytest

import natsync

from tests.support.fake_server import Background, FakeServer

PUBLIC = {name for name, value in vars(natsync).items() if not (name[0] == "_" or ismodule(value))}
PUBLIC.remove("annotations")

FIRST_CONNECT = """
import sys, natsync
before = {{*sys.modules}}
with natsync.connect("{}"):
    print(*{{*sys.modules}} - before)
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_first_connect_loads_json_alone() -> None:
    """Else it takes 25 ms more: too late in a process that already has work to do."""
    with FakeServer() as server:
        call = Background(partial(python, FIRST_CONNECT.format(server.url)))
        server.accept().greet()
        assert {name.partition(".")[0] for name in call.result().split()} == {"_json", "json"}


def test_every_name_is_there() -> None:
    assert all(getattr(natsync, name) for name in PUBLIC)
    code = "from natsync import *; print(connect.__name__, Msg.__name__, Client.__name__)"
    assert python(code) == "connect Msg Client\n"
    assert python("import natsync; print(natsync.tls.TLS is natsync.TLS)") == "True\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'natsync' has no attribute 'nope'"):
        getattr(natsync, "nope")


def test_completion_shows_every_name_and_help_is_short() -> None:
    assert PUBLIC <= set(python("import natsync; print(*dir(natsync))").split())
    shown = pydoc.render_doc(natsync, renderer=pydoc.plaintext)
    assert "connect(" in shown and "class Subscription" in shown
    count = len(shown.splitlines())
    assert count < 1000  # `help(threading)` has more
    assert PUBLIC - set(natsync.errors.__all__) <= set(re.findall(r"\w+", natsync.__doc__ or ""))
    errors = pydoc.render_doc(natsync.errors, renderer=pydoc.plaintext)
    assert all(f"class {name}(" in errors for name in natsync.errors.__all__ if name in PUBLIC)


def test_what_was_pickled_is_read_by_a_process_that_has_loaded_nothing() -> None:
    data = pickle.dumps((natsync.Status, natsync.NoRespondersError("nobody")))
    found = python(f"import pickle; print(*pickle.loads({data!r}))")
    assert found == f"{natsync.Status} no responders on nobody\n"
