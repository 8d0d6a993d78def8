"""The names of `natsync`, and what is loaded with them."""

from __future__ import annotations

import pickle
import pydoc
import re
import subprocess
import sys
from functools import partial
from inspect import ismodule
from pathlib import Path

import pytest

import natsync
from natsync._extras import pip_install

from tests.support.fake_server import Background, FakeServer
from tests.support.paths import ROOT

PUBLIC = {name for name, value in vars(natsync).items() if not (name[0] == "_" or ismodule(value))}
PUBLIC -= {"annotations", "late_import", "TYPE_CHECKING"}
PACKAGES = (
    *("instrumentation", "jetstream", "kombu", "kv", "micro", "object_store"),
    *("otel", "streaming", "testing"),
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

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
        peer = server.accept()
        peer.greet()
        peer.expect_end()
        assert {name.partition(".")[0] for name in call.result().split()} == {"_json", "json"}


def test_every_name_is_there() -> None:
    assert PUBLIC == {*natsync.__all__} and natsync.__all__ == sorted(natsync.__all__)
    code = (
        "from natsync import *; print(connect.__name__, Msg.__name__, NoRespondersError.__name__)"
    )
    assert python(code) == "connect Msg NoRespondersError\n"
    assert python("import natsync; print(natsync.tls.TLS is natsync.TLS)") == "True\n"


def test_packages_are_imported_when_they_are_first_used() -> None:
    _import_optional()
    code = (
        "import sys, natsync\n"
        f"assert not {{'natsync.' + name for name in {PACKAGES}}} & {{*sys.modules}}\n"
        f"for name in {PACKAGES}:\n"
        "    assert getattr(natsync, name) is sys.modules[f'natsync.{name}']\n"
    )
    python(code)
    declared = re.findall(r"from \. import (\w+) as \1\n", Path(natsync.__file__).read_text())
    assert tuple(declared) == PACKAGES  # what type checkers see


def test_an_except_clause_may_name_a_package() -> None:
    """It raised an AttributeError over the error of the `try` block."""
    code = (
        "import natsync\n"
        "try: natsync.connect('nats://127.0.0.1:1')\n"
        "except natsync.kv.BucketNotFoundError: pass\n"
        "except natsync.ConnectError: print('refused')\n"
    )
    assert python(code) == "refused\n"


def test_a_package_without_its_extra_names_it() -> None:
    code = (
        "import sys, pydoc, natsync\n"
        "sys.modules.update(kombu=None, opentelemetry=None)\n"
        "for name in ('kombu', 'otel'):\n"
        "    try: getattr(natsync, name)\n"
        "    except AttributeError as error: print(error)\n"
        "    try: __import__(f'natsync.{name}')\n"
        "    except ModuleNotFoundError as error: print(error)\n"
        "    assert not hasattr(natsync, name)\n"
        "assert 'connect(' in pydoc.render_doc(natsync, renderer=pydoc.plaintext)\n"
    )
    kombu = f"natsync.kombu needs kombu: {pip_install('kombu')}"
    otel = f"natsync.otel needs opentelemetry-api: {pip_install('otel')}"
    assert python(code).splitlines() == [kombu, kombu, otel, otel]


def test_names_in_the_documentation_are_there_after_import_natsync() -> None:
    """As the README writes them: `natsync.micro.add_service(nc, ...)`."""
    _import_optional()
    found = {
        name
        for page in PAGES
        for code in re.findall(r"```python.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
        for name in re.findall(r"\bnatsync((?:\.[A-Za-z_]\w*)+)", code)
        if name.lstrip(".").partition(".")[0] not in ("md", "zip")
    }
    assert {".micro.add_service", ".kombu.register", ".streaming.connect"} <= found
    python(f"import natsync\nfor name in {sorted(found)}: eval('natsync' + name)")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'natsync' has no attribute 'nope'"):
        getattr(natsync, "nope")


def test_completion_and_help_show_every_name() -> None:
    assert {*PUBLIC, *PACKAGES} <= set(python("import natsync; print(*dir(natsync))").split())
    shown = pydoc.render_doc(natsync, renderer=pydoc.plaintext)
    assert "connect(" in shown and "class Subscription" in shown
    assert PUBLIC - set(natsync.errors.__all__) <= set(re.findall(r"\w+", natsync.__doc__ or ""))
    errors = pydoc.render_doc(natsync.errors, renderer=pydoc.plaintext)
    assert all(f"class {name}(" in errors for name in natsync.errors.__all__ if name in PUBLIC)


def test_what_was_pickled_is_read_by_a_process_that_has_loaded_nothing() -> None:
    data = pickle.dumps((natsync.Status, natsync.NoRespondersError("nobody")))
    found = python(f"import pickle; print(*pickle.loads({data!r}))")
    assert found == f"{natsync.Status} no responders on nobody\n"


def _import_optional() -> None:
    """Skips the test where the extras `otel` and `kombu` are not installed."""
    for name in ("kombu", "opentelemetry"):
        pytest.importorskip(name)
