"""The rules of the house that no linter knows: sizes, the test mirror, and which file may do what.

Who imports whom inside the packages is import-linter's, see setup.cfg.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.workers import LONGEST

pytestmark = pytest.mark.xdist_group("layout")  # every file is parsed once

SOURCE = ("natsync", "pytest_natsync", "dissect")
CODE = (*SOURCE, "tests", "samples")

FILE_LINES = 500
# One class, all of whose methods users call: its half could not be understood alone.
LONGER = {"natsync/client.py": 750}
FUNCTION_LINES = 60
FILE_BYTES = 5_000_000

# Standard modules that mean I/O or concurrency, and the only source files that may import them.
FENCES = {
    "socket": {"natsync/_engine/transport.py", "natsync/testing/server.py"}
    | {"natsync/testing/memory/server.py"},
    "ssl": {"natsync/tls.py", "natsync/_engine/transport.py"},
    "selectors": {"natsync/_engine/poller.py", "natsync/testing/memory/server.py"},
    "threading": {
        f"natsync/_engine/{file}.py"
        for files in (
            "connection dialer dispatch forks futures handlers inherited loop",
            "outbound_buffer pending_queue seat sink supervisor",
        )
        for file in (*files.split(), "waiter")
    }
    | {f"natsync/streaming/{file}.py" for file in ("connection", "liveness", "publisher")}
    | {f"natsync/jetstream/{file}.py" for file in ("consuming", "reader")}
    | {"natsync/jetstream/publish_window.py", "natsync/kombu/deliveries.py"}
    | {"natsync/testing/memory/server.py"}
    | {"natsync/client.py", "natsync/core.py"}  # the type of what they return
    | {"natsync/_late.py"}  # which thread an import runs on
    | {"natsync/micro/endpoint.py", "natsync/micro/service.py", "dissect/nats/spark/progress.py"}
    | {"dissect/nats/spark/launch/java_output.py"}
    | {"dissect/nats/output/parquet.py", "dissect/nats/output/query_signals.py"},
}

# What natsync may import beside the standard library, where it is needed: the extras, and what only type
# checkers see.
OPTIONAL = {"celery", "click", "cryptography", "kombu", "opentelemetry", "typing_extensions"}

# Where the tests of a source file live; the first match counts.
MIRROR = {
    "natsync/protocol/": "tests/protocol/",
    "natsync/_engine/": "tests/engine/",
    "natsync/jetstream/": "tests/jetstream/",
    "natsync/kombu/": "tests/kombu/",
    "natsync/kv/": "tests/kv/",
    "natsync/object_store/": "tests/object_store/",
    "natsync/micro/": "tests/micro/",
    "natsync/streaming/": "tests/streaming/",
    "natsync/testing/": "tests/testing/",
    "natsync/": "tests/client/",
    "pytest_natsync/": "tests/testing/",
    "dissect/nats/spark/": "tests/spark/",
    "dissect/nats/": "tests/dissector/",
    "dissect/": "tests/dissector/",
}
# Source files without a test file of their own, each with the reason.
UNMIRRORED: dict[str, str] = {
    "dissect/nats/audit/sigma/levels.py": "an enum of five names; tests of --fail-on need their order",
}

# A folder of somebody's machine, which no other machine has.
MACHINE_PATH = re.compile(rb"(?<![\w.:/-])/(?:home|root|Users|work|farm)/[\w.-]+")

# A silenced check names its code, and says why in a comment of its own.
SILENCED = re.compile(r"#\s*(?:type:\s*ignore|noqa)")
SILENCED_WITH_REASON = re.compile(
    r"# (?:type: ignore\[[\w, -]+\]|noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*)  ?# ?\w+"
)

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(autouse=True, scope="module")
def _trees_are_no_garbage() -> Iterator[None]:
    """To search a million nodes for garbage took longer than to make them, in other files' tests as well."""
    gc.disable()
    yield
    nodes.cache_clear()
    parse.cache_clear()
    gc.enable()


def python_files(*folders: str) -> dict[str, Path]:
    """Name in the tree -> path."""
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path for path in found}


def committed_files() -> Iterator[Path]:
    """What a clone holds: no environments, caches and builds; `.git` is a file in a linked worktree."""
    made = {".coverage", ".git"}
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name not in made)
    for folder in (*CODE, ".ci"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parse(path)))


@functools.cache
def imported(path: Path) -> set[str]:
    """Top-level names of other packages that are imported anywhere in a file."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    yield from (argument.annotation for argument in every if argument.annotation)
    if function.returns:
        yield function.returns


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body without its docstring."""
    documented = ast.get_docstring(function, clean=False) is not None
    body = function.body[documented:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def mirrors(source: str) -> list[str]:
    """The names that the tests of a source file may have."""
    room = next(prefix for prefix in MIRROR if source.startswith(prefix))
    *folders, file = source.removeprefix(room).split("/")
    return [
        f"{MIRROR[room]}test_{'_'.join([*folders, file])}",
        f"{MIRROR[room]}{'/'.join([*folders, f'test_{file}'])}",
    ]


def test_a_file_fits_in_the_head() -> None:
    sizes = {
        name: len(path.read_bytes().splitlines()) for name, path in python_files(*CODE).items()
    }
    long = {name for name, lines in sizes.items() if lines > LONGER.get(name, FILE_LINES)}
    assert long == set() and all(sizes[name] > FILE_LINES for name in LONGER)


def test_a_function_fits_on_a_screen() -> None:
    sizes = {
        f"{name}: {node.name}": body_lines(node)
        for name, path in python_files(*CODE).items()
        for node in nodes(path)
        if isinstance(node, Function)
    }
    assert {name: lines for name, lines in sizes.items() if lines > FUNCTION_LINES} == {}


def test_a_module_says_what_it_promises() -> None:
    files = python_files(*CODE).items()
    assert [name for name, path in files if not ast.get_docstring(parse(path))] == []


def test_every_source_file_has_its_test() -> None:
    sources = [
        name for name in python_files(*SOURCE) if not name.endswith(("__init__.py", "__main__.py"))
    ]
    alone = {
        source: mirrors(source)[-1]
        for source in sources
        if source not in UNMIRRORED and not any((ROOT / test).exists() for test in mirrors(source))
    }
    assert alone == {}, "write the test file that stands beside each name"
    assert [source for source in UNMIRRORED if source not in sources] == []


def test_workers_see_groups(request: pytest.FixtureRequest) -> None:
    """pytest-xdist says in the name of a test that it has a group; the group of Spark has the only Java."""
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@layout") or not grouped


def test_dissect_is_a_namespace_that_others_share() -> None:
    assert not (ROOT / "dissect/__init__.py").exists()


def test_io_and_threads_stay_in_their_files() -> None:
    for name, path in python_files(*SOURCE).items():
        fenced = imported(path) & FENCES.keys()
        assert [module for module in fenced if name not in FENCES[module]] == [], name


def test_no_product_code_sleeps() -> None:
    for name, path in python_files(*SOURCE).items():
        names = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        names |= {
            alias.name
            for node in nodes(path)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert "sleep" not in names, name


def test_signatures_do_not_say_any() -> None:
    loose = [
        f"{name}:{node.lineno} {node.name}"
        for name, path in python_files(*SOURCE).items()
        for node in nodes(path)
        if isinstance(node, Function) and any("Any" in names_in(note) for note in annotations(node))
    ]
    assert loose == []


def test_a_name_of_the_dissector_stands_for_one_type() -> None:
    """Classes and aliases of types in two files must not differ by an underscore alone."""
    places: dict[str, set[str]] = {}
    for name, path in python_files("dissect").items():
        for node in parse(path).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.strip("_"), set()).add(name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                alias = node.targets[0].id.strip("_")
                is_variable = isinstance(node.value, ast.Call)  # a TypeVar: of one file each
                if alias[:1].isupper() and not alias.isupper() and not is_variable:
                    places.setdefault(alias, set()).add(name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def names_in(annotation: ast.expr) -> set[str]:
    return set(re.findall(r"\w+", ast.unparse(annotation)))


def test_a_silenced_check_says_which_and_why() -> None:
    lines = [
        f"{name}:{number} {line.strip()}"
        for name, path in python_files(*CODE).items()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if SILENCED.search(line) and not SILENCED_WITH_REASON.search(line)
    ]
    assert lines == []


def test_the_codec_imports_itself_and_the_standard_library() -> None:
    for name, path in python_files("natsync/protocol").items():
        levels = {node.level for node in nodes(path) if isinstance(node, ast.ImportFrom)}
        assert levels <= {0, 1}, name
        # type checkers bring typing_extensions, and nothing else looks for it
        assert imported(path) <= {*sys.stdlib_module_names, "typing_extensions"}, name


def test_the_client_imports_the_standard_library() -> None:
    for name, path in python_files("natsync").items():
        assert imported(path) - sys.stdlib_module_names <= {"natsync", *OPTIONAL}, name


def test_import_natsync_loads_the_standard_library_alone() -> None:
    code = "import sys; old = set(sys.modules); import natsync; print(*sys.modules.keys() - old)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert "natsync" in loaded
    assert loaded - sys.stdlib_module_names == {"natsync"}


PROGRAMS = sorted(set(re.findall(r"python -m (tests\.[\w.]+)", (ROOT / "Makefile").read_text())))


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_make_runs_can_be_imported(program: str) -> None:
    """No other test does so, and a renamed class would break `make soak` unnoticed."""
    importlib.import_module(program)


def test_no_file_is_big_or_names_a_folder_of_this_machine() -> None:
    for path in committed_files():
        content = path.read_bytes()
        assert len(content) <= FILE_BYTES, path
        assert MACHINE_PATH.findall(content) == [], path


def test_the_files_that_begin_first_are_there() -> None:
    """A name that no file has any more would end the order without a word."""
    assert [name for name in LONGEST if "/" in name and not (ROOT / name).is_file()] == []
