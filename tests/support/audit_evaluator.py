"""Rules made at random, and what they mean: evaluated row by row in Python, without SQL and without pySigma.

The properties of the compiler are that DuckDB and Spark SQL find the rows that this evaluator finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from random import Random
from typing import cast

import yaml

from dissect.nats.schema.records import FrameRecord

from tests.support.audit import frame

SIGNS = ["a", "A", "b", "B", "z", "%", "_", "!", "'", '"', ".", "é", "É", "😀", " ", "\n", "[", "$"]
TEXTS = ("subject", "reply", "error")
NUMBERS = ("payload_bytes", "status")
ADDRESSES = ("10.0.0.7:4222", "10.0.1.9:1", "[fd00::1]:4222", "[fd00:0:1::]:9", "none")
NETWORKS = ("10.0.0.0/24", "10.0.0.0/15", "fd00::/64", "fd00::/16", "0.0.0.0/0", "::/0")

Test = Callable[[FrameRecord], bool]


def text(random: Random, longest: int = 4) -> str:
    """A text of letters and of signs that mean something to SQL, LIKE or YAML."""
    return "".join(random.choices(SIGNS, k=random.randrange(longest + 1)))


def rows(random: Random, count: int) -> list[FrameRecord]:
    """Frames with few different values, many of them absent."""
    known = [text(random) for _ in range(6)]

    def maybe(value: object) -> object:
        return value if random.random() < 0.8 else None

    return [
        frame(
            number,
            subject=maybe(random.choice(known)),
            reply=maybe(random.choice(known)),
            error=maybe(text(random, 8)),
            payload_bytes=maybe(random.randrange(5)),
            status=maybe(random.randrange(5)),
            queues=maybe([random.choice(known) for _ in range(random.randint(1, 3))]),
            headers=maybe({"Key": [text(random)], "Key-2": [random.choice(known)]}),
            json=maybe(random.choice(['{"n": 3}', '{"n": "x"}', "***", '{"n": true}'])),
            origin=random.choice(ADDRESSES),
        )
        for number in range(1, count + 1)
    ]


def folded(value: str) -> str:
    """Letters of A to Z as small ones."""
    return "".join(sign.lower() if "A" <= sign <= "Z" else sign for sign in value)


def escaped(value: str) -> str:
    """A text as a value of Sigma, without wildcards."""
    return re.sub(r"[\\*?]", r"\\\g<0>", value)


class Rule:
    """One rule: `detection` for YAML, and `holds` for a row."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.detection: dict[str, object] = {}
        names = [f"s{number}" for number in range(random.randint(1, 3))]
        tests = {name: self._selection(name) for name in names}
        self.detection["condition"], self.holds = self._condition(tests)

    @property
    def yaml(self) -> str:
        """The detection as YAML, indented by two."""
        made = yaml.safe_dump(self.detection, allow_unicode=True, width=10**6)
        return "".join(f"  {line}\n" for line in made.splitlines())

    def _condition(self, tests: dict[str, Test]) -> tuple[str, Test]:
        names = list(tests)
        form = self._random.choice(["all of them", "1 of s*", "not", "and", "or"])
        every = list(tests.values())
        if form == "all of them":
            return form, lambda row: all(test(row) for test in every)
        if form == "1 of s*":
            return form, lambda row: any(test(row) for test in every)
        if form == "not":
            first = tests[names[0]]
            return f"not {names[0]}", lambda row: not first(row)
        if form == "and":
            text = " and not ".join(names)
            return text, lambda row: every[0](row) and not any(test(row) for test in every[1:])
        text = f"not ({' or '.join(names)}) or {names[-1]}"
        return text, lambda row: not any(test(row) for test in every) or every[-1](row)

    def _selection(self, name: str) -> Test:
        if self._random.random() < 0.15:
            return self._keywords(name)
        items: dict[str, object] = {}
        tests = []
        for _ in range(self._random.randint(1, 2)):
            key, value, test = self._item()
            if key not in items:
                items[key] = value
                tests.append(test)
        self.detection[name] = items
        return lambda row: all(test(row) for test in tests)

    def _keywords(self, name: str) -> Test:
        words = [text(self._random, 2) + "a" for _ in range(2)]
        self.detection[name] = [escaped(word) for word in words]

        def holds(row: FrameRecord) -> bool:
            found = [
                getattr(row, field)
                for field in FrameRecord.__slots__
                if isinstance(getattr(row, field), str)
            ]
            found += row.queues or []
            for header, values in (row.headers or {}).items():
                found += [header, *values]
            return any(folded(word) in folded(one) for word in words for one in found)

        return holds

    def _item(self) -> tuple[str, object, Test]:
        makers = [self._text, self._text, self._number, self._null, self._field, self._other]
        return self._random.choice(makers)()

    def _text(self) -> tuple[str, object, Test]:
        random = self._random
        field = random.choice([*TEXTS, "queues", "headers.Key"])
        part = random.choice(["", "contains", "startswith", "endswith"])
        cased = random.random() < 0.3
        every = random.random() < 0.3
        values = [text(random, 3) for _ in range(random.randint(1, 2))]
        values = [value or "a" for value in values]
        how: dict[str, Callable[[str, str], bool]] = {
            "": str.__eq__,
            "contains": lambda have, want: want in have,
            "startswith": str.startswith,
            "endswith": str.endswith,
        }
        fold = str if cased else folded

        def has(row: FrameRecord, value: str) -> bool:
            return any(how[part](fold(one), fold(value)) for one in texts_of(row, field))

        modifiers = [part] * bool(part) + ["cased"] * cased + ["all"] * every
        key = "|".join([field, *modifiers])
        quantity = all if every else any
        written: object = [escaped(value) for value in values]
        return key, written, lambda row: quantity(has(row, value) for value in values)

    def _number(self) -> tuple[str, object, Test]:
        random = self._random
        field, number = random.choice(NUMBERS), random.randrange(5)
        how = random.choice(["", "lt", "lte", "gt", "gte"])
        compare: dict[str, Callable[[int, int], bool]] = {
            "": int.__eq__,
            "lt": int.__lt__,
            "lte": int.__le__,
            "gt": int.__gt__,
            "gte": int.__ge__,
        }

        def holds(row: FrameRecord) -> bool:
            value = getattr(row, field)
            return value is not None and compare[how](value, number)

        return f"{field}|{how}".rstrip("|"), number, holds

    def _null(self) -> tuple[str, object, Test]:
        random = self._random
        field = random.choice([*TEXTS, *NUMBERS, "queues", "headers", "headers.None"])
        wanted = random.random() < 0.5

        def absent(row: FrameRecord) -> bool:
            return field == "headers.None" or getattr(row, field) is None

        if random.random() < 0.5:
            return field, None, absent
        return f"{field}|exists", wanted, lambda row: absent(row) is not wanted

    def _field(self) -> tuple[str, object, Test]:
        how = self._random.choice(["", "startswith", "endswith", "contains"])
        compare: dict[str, Callable[[str, str], bool]] = {
            "": str.__eq__,
            "startswith": str.startswith,
            "endswith": str.endswith,
            "contains": lambda have, want: want in have,
        }

        def holds(row: FrameRecord) -> bool:
            if row.subject is None or row.reply is None:
                return False
            return compare[how](folded(row.subject), folded(row.reply))

        return f"subject|fieldref|{how}".rstrip("|"), "reply", holds

    def _other(self) -> tuple[str, object, Test]:
        random = self._random
        form = random.choice(["cidr", "re", "wildcards", "json"])
        if form == "cidr":
            network = random.choice(NETWORKS)
            return "origin|cidr", network, lambda row: in_network(row.origin or "", network)
        if form == "json":
            return "json.n", 3, lambda row: row.json == '{"n": 3}'
        if form == "wildcards":
            sign = random.choice(SIGNS[:6])
            pattern = re.compile(f"{re.escape(folded(sign))}.*\\Z", re.DOTALL)
            return "subject", f"{sign}*", lambda row: bool(pattern.match(folded(row.subject or "")))
        raw, flags = random.choice(
            [("^a|b$", ""), ("[^a]b?", "i"), (r"\$.", ""), ("[a-b]{2}", "i")]
        )
        made = re.compile(
            raw.replace("$", r"\Z") if raw.endswith("$") else raw, re.I if flags else 0
        )
        key = "|".join(["subject", "re", *flags])
        return key, raw, lambda row: row.subject is not None and bool(made.search(row.subject))


def texts_of(row: FrameRecord, field: str) -> list[str]:
    """The texts of a field: none, one, or the items of a list."""
    value: object = row.headers and row.headers.get("Key") if "." in field else getattr(row, field)
    if value is None:
        return []
    return [value] if isinstance(value, str) else [*map(str, cast("list[object]", value))]


def in_network(address: str, network: str) -> bool:
    """Whether `ip:port` is in a network."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host) in ip_network(network)
    except ValueError:
        return False
