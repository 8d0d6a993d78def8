"""Forms of option values: what each reads, also as a text, and what it says of a wrong value."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import pytest

from dissect.nats.capture.time_range import TimeBound
from dissect.nats.option_types import (
    Form,
    Opt,
    OptionGroup,
    byte_size,
    changed,
    declared,
    file_name,
    flag,
    lists,
    one_of,
    pairs,
    ports,
    seconds,
    several,
    text,
    texts,
    time,
    unknown,
    whole,
)
from dissect.nats.schema.payload import Payload
from natsync.protocol import Kind

CONF = pairs("K=V", "spark.executor.memory=4g", "spark.")
KINDS = several(one_of(Kind), "KIND", frozenset)
PATHS = texts("FILE", "a path or several")
NAMES = lists("NAME=VALUE", "known_clusters=east")


@pytest.mark.parametrize(
    ("form", "value", "expected"),
    [
        (text("EXPR"), "x", "x"),
        (file_name("FILE"), "-", "-"),
        (flag(), True, True),
        (flag(), " False ", False),
        (whole(1), 7, 7),
        (whole(1), "7", 7),
        (whole(), 1 << 64, sys.maxsize),
        (byte_size(), 5, 5),
        (byte_size(), "8G", 8 << 30),
        (byte_size(1024), "1k", 1024),
        (seconds(), 1, 1.0),
        (seconds(), "0.25", 0.25),
        (seconds(), "500ms", 0.5),
        (seconds(), "5 m", 300.0),
        (seconds(), timedelta(hours=1), 3600.0),
        (seconds(0.1, 3600), "1h", 3600.0),
        (time(), "1.5", TimeBound(1_500_000_000, True)),
        (time(), TimeBound(5), TimeBound(5)),
        (one_of(Payload), "text", Payload.TEXT),
        (one_of(Payload), Payload.TEXT, Payload.TEXT),
        (one_of(("a", "b")), "b", "b"),
        (several(one_of(("a", "b")), "A,B"), "b, a", ("b", "a")),
        (KINDS, "route", frozenset([Kind.ROUTE])),
        (KINDS, Kind.ROUTE, frozenset([Kind.ROUTE])),
        (KINDS, ["route", Kind.GATEWAY], frozenset([Kind.ROUTE, Kind.GATEWAY])),
        (KINDS, ("route,gateway",), frozenset([Kind.ROUTE, Kind.GATEWAY])),
        (PATHS, "a,b", ("a,b",)),
        (PATHS, [Path("a"), "b"], ("a", "b")),
        (ports(), {"4222": "client", 1: Kind.ROUTE}, {4222: Kind.CLIENT, 1: Kind.ROUTE}),
        (ports(), "4222=client, 1=route", {4222: Kind.CLIENT, 1: Kind.ROUTE}),
        (ports(), ("4222=client", "1=route"), {4222: Kind.CLIENT, 1: Kind.ROUTE}),
        (CONF, ("spark.x=a=b", "spark.y=1,2"), {"spark.x": "a=b", "spark.y": "1,2"}),
        (CONF, {"spark.x": "a"}, {"spark.x": "a"}),
        (NAMES, ("a=1", "b=2", "a=3"), {"a": ["1", "3"], "b": ["2"]}),
    ],
)
def test_a_form_reads_a_value_and_its_text_and_what_it_has_read(
    form: Form, value: object, expected: object
) -> None:
    assert form.read(value) == expected
    if form is not NAMES:
        assert form.read(expected) == expected


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (file_name("FILE"), "", "must be the name of a file, or - for standard output, not ''"),
        (flag(), "maybe", "must be True or False, not 'maybe'"),
        (whole(1), 0, "must be a whole number, 1 or more, not 0"),
        (whole(0, 512), "513", "must be a whole number, 0 to 512, not '513'"),
        (whole(), "-1", "must be a whole number, 0 or more, not '-1'"),
        (whole(), "9" * 5000, f"must be a whole number, 0 or more, not '{'9' * 5000}'"),
        (byte_size(), "64x", "must be a size such as 64M, not '64x'"),
        (byte_size(4096), "1k", "must be a size such as 64M, 4096 bytes or more, not '1k'"),
        (seconds(), "nan", "must be a number of seconds or a duration such as 30s, not 'nan'"),
        (seconds(), "1e10", "must be a number of seconds or a duration such as 30s, not '1e10'"),
        (seconds(), float("nan"), "must be a number of seconds or a duration such as 30s, not nan"),
        (
            seconds(positive=True),
            0,
            "must be a number of seconds or a duration such as 30s, more than 0, not 0",
        ),
        (
            seconds(0.1, 3600),
            "2h",
            "must be a number of seconds or a duration such as 30s, 0.1 to 3600, not '2h'",
        ),
        (one_of(Payload), "hex", "must be none, sha256, text or base64, not 'hex'"),
        (KINDS, "x", "must be one or several of client, route, gateway or leafnode, not 'x'"),
        (KINDS, [], "must be one or several of client, route, gateway or leafnode, not []"),
        (CONF, "memory=4g", "must be K=V, such as spark.executor.memory=4g, not 'memory=4g'"),
        (CONF, "spark.x", "must be K=V, such as spark.executor.memory=4g, not 'spark.x'"),
        (NAMES, "known", "must be NAME=VALUE, such as known_clusters=east, not 'known'"),
        *(
            (
                ports(),
                wrong,
                f"such as 4222=client; kinds are {', '.join(kind.value for kind in Kind)}, not {wrong!r}",
            )
            for wrong in (
                "x=client",
                "1=nope",
                "0=client",
                "65536=client",
                "4222",
                {65536: "route"},
            )
        ),
    ],
)
def test_a_wrong_value_is_a_value_error_that_says_what_it_must_be(
    form: Form, value: object, text: str
) -> None:
    with pytest.raises(ValueError) as caught:
        form.read(value)
    assert str(caught.value).startswith("must be ") and str(caught.value).endswith(text)


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (text("EXPR"), 3),
        (flag(), None),
        (flag(), 1),
        (whole(), True),
        (whole(), 1.5),
        (byte_size(), 1.5),
        (seconds(), True),
        (time(), 5),
        (one_of(Payload), []),
        (KINDS, 3),
        (KINDS, [[]]),
        (PATHS, 3),
        (PATHS, [3]),
        (PATHS, [b"a"]),
        (ports(), 4222),
        (ports(), {4222: []}),
        (ports(), [4222]),
    ],
)
def test_a_value_of_another_type_is_a_type_error(form: Form, value: object) -> None:
    with pytest.raises(TypeError, match="^must be .*, not "):
        form.read(value)


def test_a_default_value_is_shown_in_its_shortest_text() -> None:
    assert [byte_size().text(size) for size in (0, 1000, 4096, 128 << 20)] == [
        "0",
        "1000",
        "4k",
        "128M",
    ]
    assert [seconds().text(value) for value in (1.0, 0.25, 86400.0)] == ["1", "0.25", "86400"]
    assert one_of(Payload).text(Payload.NONE) == "none"


@dataclass
class Place:
    """A class of options."""

    max_flows: Annotated[int, "Flows at a time.", Opt(OptionGroup.LIMITS, whole(1))] = 5
    name: Annotated[str | None, "A name.", Opt(OptionGroup.OUTPUT, text("N"), flags=("--to",))] = (
        None
    )
    other: int = 3


def test_options_are_declared_with_names_defaults_and_flags() -> None:
    found = declared(Place)
    assert {name: (opt.default, opt.flag(name)) for name, opt in found.items()} == {
        "max_flows": ("5", "--max-flows"),
        "name": ("", "--to"),
    }
    assert found["name"].read("name", None) is None
    with pytest.raises(ValueError, match="^max_flows must be a whole number, 1 or more, not 0$"):
        found["max_flows"].read("max_flows", 0)
    with pytest.raises(TypeError, match="^max_flows must be a whole number, 1 or more, not None$"):
        found["max_flows"].read("max_flows", None)


def test_options_that_do_not_have_their_default_values_are_listed() -> None:
    assert changed(Place()) == [] and changed(Place(name="x", other=5)) == ["name"]


def test_an_unknown_option_names_those_there_are_or_what_to_do_instead() -> None:
    reason = "read has no option 'x'"
    assert unknown("read", "x", ["b", "a"], {}) == (reason, "there are a, b")
    assert unknown("read", "x", ["b", "a"], {"x": "say y"}) == (reason, "say y")
