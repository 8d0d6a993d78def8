"""Finds and reads the files of rules: those of the package, and those of the user's folders.

A file has one rule, or several as YAML documents (separated by `---`), so that a correlation can be in one
file with the rules that it refers to. Files are named `*.yml` or `*.yaml`, at any depth. A rule replaces
earlier ones with the same id or name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import RuleError, reason_of
from ...output.folders import files_in
from .filters import applied
from .rules import Correlation, Detection, Filter, parsed
from .yaml_lines import YamlFault, documents

if TYPE_CHECKING:
    from importlib.abc import Traversable

_SUFFIXES = (".yml", ".yaml")
_MOST_BYTES = 1 << 20


def load_rules(folders: Sequence[str] = ()) -> dict[str, Detection | Correlation]:
    """All rules by name: the package's, then those in the folders or files, in order, with their filters.
    Raises RuleError."""
    rules: dict[str, Detection | Correlation | Filter] = {}
    for rule in _of_package():
        _add(rules, rule, set())
    package = dict(rules)
    for folder in folders:
        added: set[str] = set()
        for rule in _of_folder(folder):
            _add(rules, rule, added)
        if not added:
            raise RuleError(folder, 0, "has no rules: nothing but blank lines and comments")
    _drop_uncounted(rules, package)
    return applied(rules)


def _drop_uncounted(
    rules: dict[str, Detection | Correlation | Filter],
    package: Mapping[str, Detection | Correlation | Filter],
) -> None:
    """Drops package rules that only a correlation counted which a user's rule has replaced. Otherwise, each
    row that they match would become a finding."""
    for name in _counted(package) - _counted(rules):
        if rules.get(name) is package[name]:
            del rules[name]


def _counted(rules: Mapping[str, Detection | Correlation | Filter]) -> set[str]:
    """The names of the rules that correlations refer to."""
    names = {rule.id: name for name, rule in rules.items()}
    references = (
        each.reference
        for rule in rules.values()
        if isinstance(rule, Correlation)
        for each in rule.parsed_rule.rules or []
    )
    return {names.get(each, each) for each in references}


def _add(
    rules: dict[str, Detection | Correlation | Filter],
    rule: Detection | Correlation | Filter,
    added: set[str],
) -> None:
    """Adds a rule and removes earlier ones with its id or name, which must be unique within one folder."""
    for name in [name for name, one in rules.items() if rule.id == one.id or rule.name == name]:
        if name in added:
            line = rule.document.line("name" if name == rule.name else "id")
            reason = f"{rules[name].place} has a rule with this name or id"
            raise RuleError(rule.place, line, reason)
        del rules[name]
    added.add(rule.name)
    rules[rule.name] = rule


@cache
def _of_package() -> tuple[Detection | Correlation | Filter, ...]:
    """The package's rules. They are read once per process, because reading them takes longer than an audit of
    a small capture."""
    root = resources.files("dissect.nats.audit").joinpath("rules")
    return tuple(
        rule
        for name, file in sorted(_files(root, ""))
        for rule in _of_file(name, file.read_bytes(), trusted=True)
    )


def _files(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for item in folder.iterdir():
        name = f"{above}{item.name}"
        if item.is_dir():
            yield from _files(item, f"{name}/")
        elif item.name.endswith(_SUFFIXES):
            yield name, item


def _of_folder(folder: str) -> Iterator[Detection | Correlation | Filter]:
    path = Path(folder)
    if path.is_dir():
        try:
            files = files_in(path, _SUFFIXES)
        except OSError as error:
            raise RuleError(str(error.filename), 0, f"cannot be read: {error.strerror}") from None
        if not files:
            raise RuleError(folder, 0, "no rules in this folder; their files are named *.yml")
    else:
        files = [path]
    for file in files:
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise RuleError(str(file), 0, "too large for rules; the most is 1 MiB")
            data = file.read_bytes()
        except (OSError, ValueError) as error:
            raise RuleError(str(file), 0, f"cannot be read: {reason_of(error)}") from None
        yield from _of_file(str(file), data)


def _of_file(
    place: str, data: bytes, trusted: bool = False
) -> Iterator[Detection | Correlation | Filter]:
    try:
        for document in documents(data.decode("utf-8"), trusted):
            yield parsed(document, place)
    except UnicodeDecodeError:
        raise RuleError(place, 0, "no text in UTF-8") from None
    except YamlFault as fault:
        raise RuleError(place, fault.line, fault.reason) from None
