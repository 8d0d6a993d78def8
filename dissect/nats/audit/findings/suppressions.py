"""Suppressions: known findings that somebody has accepted, each with the reason.

    - rule: password-in-clear             name or id
      match: {user: shop, capture: "lab-*"}
      reason: The lab has no certificates yet, see OPS-17.
      expires: 2027-03-31                 optional: the last day on which it holds, in UTC

`match` has columns of findings (`session`, `subject`, `capture` ...) or of their `fields`. `*` matches any
text, `?` any character, and case matters. All columns must match; `match: all` matches every finding of the
rule. Suppressed findings are counted and shown with the reason. Suppressions that expired or match nothing
are reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from ...errors import RuleError
from ..sigma.yaml_lines import Document, YamlFault, documents
from .finding import FIELDS, Finding

_KEYS = {"rule", "match", "reason", "expires"}
_ALL = "all"


@dataclass(slots=True)
class Suppression:
    """One suppression; `place` is its file and line, `used` counts what it suppressed."""

    rule: str
    match: dict[str, re.Pattern[str]]
    reason: str
    expires: date | None
    place: str
    used: int = 0

    def holds(self, finding: Finding) -> bool:
        """Whether it suppresses this finding."""
        if finding.rule != self.rule:
            return False
        values = finding.values if self.match.keys() - set(FIELDS) else {}
        for name, pattern in self.match.items():
            value = getattr(finding, name) if name in FIELDS else values.get(name)
            if value is None or not pattern.fullmatch(str(value)):
                return False
        return True


class Suppressions:
    """The suppressions of a file, as they hold on a given day."""

    def __init__(self, suppressions: Iterable[Suppression], today: date) -> None:
        every = list(suppressions)
        self._expired = [one for one in every if one.expires and one.expires < today]
        self._holding = [one for one in every if not (one.expires and one.expires < today)]

    def applied(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The findings; each has the reason of the first suppression that holds for it, if any."""
        for finding in findings:
            for one in self._holding:
                if one.holds(finding):
                    one.used += 1
                    finding.suppressed = one.reason
                    break
            yield finding

    def remarks(self) -> Iterator[str]:
        """Lines about suppressions that have expired or matched no finding."""
        for one in self._expired:
            yield f"{one.place}: the suppression of {one.rule} expired on {one.expires}"
        for one in self._holding:
            if not one.used:
                yield f"{one.place}: the suppression of {one.rule} matched no finding"


def load_suppressions(path: str, names: dict[str, str], today: date) -> Suppressions:
    """Reads a file. `names` maps the names and ids of rules to their names. Raises RuleError."""
    try:
        found = list(documents(Path(path).read_text("utf-8")))
    except OSError as error:
        raise RuleError(path, 0, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RuleError(path, 0, "no text in UTF-8") from None
    except YamlFault as fault:
        raise RuleError(path, fault.line, fault.reason) from None
    if not found:
        return Suppressions([], today)
    if len(found) > 1:
        raise RuleError(path, found[1].line(), "suppressions are one document of YAML")
    (document,) = found
    if not isinstance(document.value, list):
        raise RuleError(path, document.line(), "suppressions are a list of maps")
    return Suppressions(
        [
            _suppression(item, number, document, path, names)
            for number, item in enumerate(document.value)
        ],
        today,
    )


def _suppression(
    item: object, number: int, document: Document, path: str, names: dict[str, str]
) -> Suppression:
    def fault(reason: str, *part: str) -> RuleError:
        return RuleError(path, document.line(number, *part), reason)

    if not isinstance(item, dict):
        raise fault("a suppression is a map with rule, match and reason")
    for key in item:
        if key not in _KEYS:
            raise fault(f"unknown key {key!r}; there are {', '.join(sorted(_KEYS))}", str(key))
    rule, reason, expires = item.get("rule"), item.get("reason"), item.get("expires")
    if not isinstance(rule, str) or rule not in names:
        raise fault(f"there is no rule {rule!r}", "rule")
    if not isinstance(reason, str) or not reason.strip():
        raise fault("a suppression has a reason", "reason")
    if expires is not None and (not isinstance(expires, date) or isinstance(expires, datetime)):
        raise fault("'expires' is a day, as 2027-03-31", "expires")
    match = item.get("match")
    if match != _ALL and (not isinstance(match, dict) or not match):
        raise fault("'match' is a map of columns to values, or the word all", "match")
    patterns = {} if match == _ALL else _patterns(match)
    place = f"{path}:{document.line(number)}"
    return Suppression(names[rule], patterns, " ".join(reason.split()), expires, place)


def _patterns(match: dict[object, object]) -> dict[str, re.Pattern[str]]:
    return {str(name): re.compile(_pattern(str(value)), re.DOTALL) for name, value in match.items()}


def _pattern(text: str) -> str:
    """Converts a text with the wildcards `*` and `?` to a regular expression."""
    signs = {"*": ".*", "?": "."}
    return "".join(signs.get(sign) or re.escape(sign) for sign in text)


def names_of(rules: Collection[tuple[str, str]]) -> dict[str, str]:
    """Maps the name and the id of each rule to its name; `rules` are pairs of name and id."""
    return {name: name for name, _ in rules} | {id_: name for name, id_ in rules}
