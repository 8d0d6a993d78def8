"""Rules in the form that the compiler takes: checked, and parsed by pySigma from YAML documents.

`parsed` refuses everything that would be ignored or would never match; the error names the line in the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from sigma.conditions import SigmaCondition
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.rule import SigmaRule
from sigma.rule.detection import SigmaDetection

from ...errors import RuleError
from ...tables import TABLES
from .levels import Harm, Level
from .patterns import portable_pattern
from .yaml_lines import Document

PRODUCT = "nats"
_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_TEXTS = ("falsepositives", "references", "tags", "fields")
KEYS = frozenset(
    "author custom date description falsepositives fields harm id level license modified name references"
    " related remedy scope status subject tags taxonomy time title".split()
)
_WHAT_TO_WRITE = {"title": "", "id": ": write a UUID, such as `uuidgen` prints"}
_LOGSOURCE = {"product", "category", "definition"}

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The part that detections and correlations share. `name` is the rule's short name, or its id if it
    has none; `time` is the field with the time of a row, if it is not that of the table; `place` is the file
    and `document` the YAML."""

    id: str
    name: str
    title: str
    level: Level
    harm: Harm
    description: str
    remedy: str
    false_positives: tuple[str, ...]
    references: tuple[str, ...]
    tags: tuple[str, ...]
    fields: tuple[str, ...]
    subject: str | None
    time: str | None
    place: str
    document: Document

    def error(self, reason: str, *path: str | int) -> RuleError:
        """A RuleError with the line of a part of the document."""
        return RuleError(self.place, self.document.line(*path), reason)


@dataclass(frozen=True, kw_only=True)
class Detection(Rule):
    """A rule about single rows of a table. A row matches if one of the rule's conditions is true, and one of
    the conditions of each filter."""

    table: str
    detections: dict[str, SigmaDetection]
    conditions: tuple[SigmaCondition, ...]
    section: str = "detection"  # the document's key that has the detections and conditions
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Filter(Detection):
    """A condition that is added to detections of the same table: those that `rules` names, or all of them
    if it is empty."""

    rules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Correlation(Rule):
    """A rule about several rows that other rules match; `parsed_rule` is pySigma's object."""

    parsed_rule: SigmaCorrelationRule


def parsed(document: Document, place: str) -> Detection | Correlation | Filter:
    """The rule or filter in a document of a file. Raises RuleError."""
    rule = document.value
    if not isinstance(rule, dict):
        raise RuleError(
            place, document.line(), "a rule is a YAML map with title, id, logsource and detection"
        )
    kind = next((key for key in ("correlation", "filter") if key in rule), "detection")
    keys = KEYS | {kind} if kind == "correlation" else KEYS | {"logsource", kind}
    for key in rule:
        if key == "action":
            raise RuleError(place, document.line(key), f"{key!r} (Sigma) is not supported")
        if key not in keys:
            raise RuleError(
                place,
                document.line(key),
                f"unknown key {key!r}; rules have {', '.join(sorted(keys))}",
            )
    common = _common(rule, document, place)
    if kind == "correlation":
        correlation = _sigma(lambda: SigmaCorrelationRule.from_dict(dict(rule)), document, place)
        return Correlation(parsed_rule=correlation, **vars(common))
    table = _table(rule.get("logsource"), document, place)
    _check_detections(rule.get(kind), document, place, kind)
    if kind == "filter":
        return _filter(rule, common, table)
    sigma = _sigma(lambda: SigmaRule.from_dict(dict(rule)), document, place)
    return Detection(
        table=table,
        detections=sigma.detection.detections,
        conditions=tuple(sigma.detection.parsed_condition),
        **vars(common),
    )


def _filter(rule: dict[str, object], common: Rule, table: str) -> Filter:
    sigma = _sigma(lambda: SigmaFilter.from_dict(dict(rule)), common.document, common.place).filter
    rules = () if isinstance(sigma.rules, str) else sigma.rules
    return Filter(
        table=table,
        detections=sigma.detections,
        conditions=tuple(sigma.parsed_condition),
        section="filter",
        rules=tuple(one.reference for one in rules),
        **vars(common),
    )


def _check_detections(detections: object, document: Document, place: str, section: str) -> None:
    if not isinstance(detections, dict):
        raise RuleError(place, document.line(section), f"{section!r} is missing, or is not a map")
    for name, definition in detections.items():
        if name == "timeframe":
            reason = "'timeframe' is not supported: write a correlation with a timespan"
            raise RuleError(place, document.line(section, name), reason)
        if name == "condition":
            texts = definition if isinstance(definition, list) else [definition]
            if not all(isinstance(text, str) for text in texts):
                reason = "'condition' is not text, or a list of texts"
                raise RuleError(place, document.line(section, name), reason)
        elif (section, name) != ("filter", "rules"):
            _check_detection(definition, document, place, section, name)


def _common(rule: dict[str, object], document: Document, place: str) -> Rule:
    def fault(reason: str, *path: str) -> RuleError:
        return RuleError(place, document.line(*path), reason)

    for key in _WHAT_TO_WRITE:
        if not isinstance(rule.get(key), str) or not rule[key]:
            raise fault(f"{key!r} is missing, or is not text{_WHAT_TO_WRITE[key]}", key)
    try:
        identity = str(UUID(str(rule["id"])))
    except ValueError:
        raise fault(f"id {rule['id']!r} is not a UUID; `uuidgen` prints one", "id") from None
    name = rule.get("name", identity)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise fault("a name must be lower-case words joined by - or _", "name")
    level = rule.get("level", "medium")
    if not isinstance(level, str) or level not in Level.__members__:
        raise fault(f"level {level!r} is not one of {', '.join(Level.__members__)}", "level")
    harm = rule.get("harm", Harm.practice.name)
    if not isinstance(harm, str) or harm not in Harm.__members__:
        raise fault(f"harm {harm!r} is not one of {', '.join(Harm.__members__)}", "harm")
    texts = {key: _texts(rule.get(key), key, fault) for key in _TEXTS}
    for key in ("description", "remedy", "subject", "time"):
        if not isinstance(rule.get(key, ""), str):
            raise fault(f"{key!r} must be text", key)
    return Rule(
        id=identity,
        name=name,
        title=str(rule["title"]),
        level=Level[level],
        harm=Harm[harm],
        description=" ".join(str(rule.get("description", "")).split()),
        remedy=" ".join(str(rule.get("remedy", "")).split()),
        false_positives=texts["falsepositives"],
        references=texts["references"],
        tags=texts["tags"],
        fields=texts["fields"],
        subject=None if rule.get("subject") is None else str(rule["subject"]),
        time=None if rule.get("time") is None else str(rule["time"]),
        place=place,
        document=document,
    )


def _texts(value: object, key: str, fault: Callable[..., RuleError]) -> tuple[str, ...]:
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise fault(f"{key!r} must be a list of text", key)
    return tuple(" ".join(item.split()) for item in items)


def _table(source: object, document: Document, place: str) -> str:
    if not isinstance(source, dict):
        reason = f"'logsource' is missing: write {{product: {PRODUCT}, category: TABLE}}"
        raise RuleError(place, document.line("logsource"), reason)
    for key in source:
        if key not in _LOGSOURCE:
            line = document.line("logsource", key)
            raise RuleError(place, line, f"{key!r} of a logsource is not supported")
    if source.get("product") != PRODUCT:
        line = document.line("logsource", "product")
        raise RuleError(place, line, f"the product must be {PRODUCT!r}")
    table = source.get("category")
    if not isinstance(table, str) or table not in TABLES:
        line = document.line("logsource", "category")
        raise RuleError(place, line, f"there is no table {table!r}; tables are {', '.join(TABLES)}")
    return table


def _check_detection(definition: object, document: Document, place: str, *path: str | int) -> None:
    """Parses a detection part by part, so that an error names its line."""
    if isinstance(definition, list) and any(isinstance(item, dict) for item in definition):
        for number, item in enumerate(definition):
            _check_detection(item, document, place, *path, number)
        return
    if isinstance(definition, dict):
        for key, value in definition.items():
            if not isinstance(key, str) or isinstance(value, dict):
                reason = f"{key!r} is not a field with a value or a list of values"
                raise RuleError(place, document.line(*path, key), reason)
            if isinstance(value, list) and not value:
                raise RuleError(place, document.line(*path, key), f"{key!r} has no values")
            _check_patterns(key, value, document.line(*path, key), place)
            one = {key: value}
            _sigma(lambda: SigmaDetection.from_definition(one), document, place, *path, key)
        return
    values: Any = definition  # of any type; pySigma refuses unknown types
    _sigma(lambda: SigmaDetection.from_definition(values), document, place, *path)


def _check_patterns(key: str, value: object, line: int, place: str) -> None:
    """Checks regular expressions before pySigma reads them, because its library prints to stderr."""
    modifiers = key.split("|")[1:]
    if "re" in modifiers:
        for pattern in value if isinstance(value, list) else [value]:
            try:
                portable_pattern(str(pattern), set(modifiers) & {"i", "s", "m"})
            except ValueError as error:
                raise RuleError(place, line, str(error)) from None


def _sigma(make: Callable[[], _T], document: Document, place: str, *path: str | int) -> _T:
    """Calls pySigma, and turns its errors into RuleError."""
    try:
        return make()
    except SigmaError as error:
        raise RuleError(place, document.line(*path), str(error)) from None
    except (
        TypeError,
        ValueError,
        AttributeError,
        KeyError,
        RecursionError,
    ) as error:  # from values of the wrong type, or that contain themselves
        reason = f"Sigma cannot read this: {error}"
        raise RuleError(place, document.line(*path), reason) from None
