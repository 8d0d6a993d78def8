"""The names of `natsync`, most of which are loaded when they are first used."""

from __future__ import annotations

import ast
import pickle
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import natsync

PUBLIC = {*natsync._MODULE_OF, "ServerInfo", *natsync.errors.__all__} - {"Facts", "fresh"}


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_codec_is_loaded_without_the_client() -> None:
    loaded = python("import sys, natsync.protocol; print(*sys.modules)").split()
    late = {"natsync._engine", "natsync.client", "socket", "ssl", "threading", "logging"}
    assert not late & set(loaded)


def test_names_come_from_where_a_type_checker_finds_them() -> None:
    tree = ast.parse(Path(natsync.__file__).read_text("utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    found = {
        alias.name: node.module
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_MODULE_OF"
    )
    assert ast.literal_eval(table) == found


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
