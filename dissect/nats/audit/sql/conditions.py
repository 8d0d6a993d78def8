"""The condition of a rule (`selection and not 1 of filter_*`) as SQL."""

from __future__ import annotations

from collections.abc import Iterator

from sigma.conditions import (
    ConditionAND,
    ConditionFieldEqualsValueExpression,
    ConditionItem,
    ConditionNOT,
    ConditionOR,
    ConditionValueExpression,
)
from sigma.exceptions import SigmaError
from sigma.rule.detection import SigmaDetection, SigmaDetectionItem

from ..sigma.rules import Detection
from .dialect import both, either
from .matching import Matcher


def condition_sql(rule: Detection, matcher: Matcher) -> str:
    """SQL for: a condition of the rule holds, and one of each of its filters. Raises RuleError."""
    return both([_conditions(each, matcher) for each in (rule, *rule.filters)])


def _conditions(rule: Detection, matcher: Matcher) -> str:
    for name, detection in rule.detections.items():
        _check(rule, matcher, detection, name)
    try:
        trees = [condition.parse() for condition in rule.conditions]
    except SigmaError as error:
        raise rule.error(str(error), rule.section, "condition") from None
    try:
        return either([_sql(tree, matcher) for tree in trees])
    except ValueError as error:
        raise rule.error(str(error), rule.section) from None


def used_fields(rule: Detection) -> tuple[str, ...]:
    """The fields that the rule's detections name, in order."""
    found = [
        item.field
        for detection in rule.detections.values()
        for item in _items(detection)
        if item.field
    ]
    return tuple(dict.fromkeys(found))


def _items(detection: SigmaDetection | SigmaDetectionItem) -> Iterator[SigmaDetectionItem]:
    if isinstance(detection, SigmaDetectionItem):
        yield detection
    else:
        for item in detection.detection_items:
            yield from _items(item)


def _check(rule: Detection, matcher: Matcher, detection: SigmaDetection, name: str) -> None:
    """Compiles every value by itself, also in unused detections, so that an error names its line."""
    definition = rule.document.value[rule.section][name]  # type: ignore[index]  # checked by `parsed`
    paths = list(_paths(definition))
    for item, path in zip(_items(detection), paths):
        try:
            for value in item.value:
                if item.field:
                    matcher.matches(item.field, value)
                else:
                    matcher.keyword(value)
        except ValueError as error:
            raise rule.error(str(error), rule.section, name, *path) from None


def _paths(definition: object) -> Iterator[tuple[str | int, ...]]:
    """The paths of a detection's items in the document, in pySigma's order."""
    if isinstance(definition, dict):
        yield from ((key,) for key in definition)
    elif isinstance(definition, list) and any(isinstance(item, dict) for item in definition):
        for number, item in enumerate(definition):
            yield from ((number, *path) for path in _paths(item))
    else:
        yield ()


def _sql(tree: object, matcher: Matcher) -> str:
    if isinstance(tree, ConditionFieldEqualsValueExpression):
        return matcher.matches(tree.field, tree.value)
    if isinstance(tree, ConditionValueExpression):
        return matcher.keyword(tree.value)
    if not isinstance(tree, ConditionItem):
        raise ValueError("the condition is empty")
    parts = [_sql(part, matcher) for part in tree.args]
    if isinstance(tree, ConditionNOT):
        return f"NOT {parts[0]}"
    if isinstance(tree, ConditionAND):
        return both(parts)
    if isinstance(tree, ConditionOR):
        return either(parts)
    raise ValueError(f"{type(tree).__name__} is not supported in a condition")
