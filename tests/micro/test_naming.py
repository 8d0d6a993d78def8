"""Names, versions and subjects of services: what ADR-32 allows, and what is refused at the call."""

from __future__ import annotations

import pytest

from natsync import OptionError, ProtocolError
from natsync.micro import naming
from natsync.micro.naming import Verb, control_subject


def test_names_are_letters_digits_dash_and_underscore() -> None:
    naming.check_name("Orders_2-eu")
    for name in ("", "a.b", "a b", "a*", "größe", "a\n"):
        with pytest.raises(OptionError, match="option name"):
            naming.check_name(name)
    with pytest.raises(TypeError, match="name must be str, not bytes"):
        naming.check_name(b"orders")  # type: ignore[arg-type]  # a wrong call


@pytest.mark.parametrize("version", ["1.0.0", "0.0.4", "1.2.3-rc.1+build.5", "1.0.0--x"])
def test_versions_are_semantic(version: str) -> None:
    naming.check_version(version)


@pytest.mark.parametrize(
    "version", ["", "1", "1.0", "v1.0.0", "01.0.0", "1.0.0-", "1.0.0\n", "٣.0.0"]
)
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(OptionError, match="not a semantic version"):
        naming.check_version(version)


def test_where_services_are_asked() -> None:
    assert control_subject(Verb.PING) == "$SRV.PING"
    assert control_subject(Verb.INFO, "math") == "$SRV.INFO.math"
    assert control_subject(Verb.STATS, "math", "A1", "other.SRV") == "other.SRV.STATS.math.A1"
    with pytest.raises(OptionError, match="option id: needs the name"):
        control_subject(Verb.PING, "", "A1")
    with pytest.raises(TypeError, match="name must be str, not int"):
        control_subject(Verb.PING, 3)  # type: ignore[arg-type]  # a wrong call


def test_subjects_of_groups_have_no_wildcard() -> None:
    naming.check_group("")
    naming.check_group("v1.orders")
    for group in ("v1.>", "*", "a b", "a..b"):
        with pytest.raises(ProtocolError, match="invalid group"):
            naming.check_group(group)


def test_subjects_of_endpoints_may_have_wildcards_and_never_begin_with_srv() -> None:
    naming.check_endpoint_subject("v1.*.orders.>")
    with pytest.raises(ProtocolError, match="> before its last token"):
        naming.check_endpoint_subject("a.>.b")
    with pytest.raises(OptionError, match="reserved"):
        naming.check_endpoint_subject("$SRV.PING")


def test_a_queue_group_has_no_blanks() -> None:
    for good in (None, "", "workers"):
        naming.check_queue_group(good)
    with pytest.raises(ProtocolError, match="queue"):
        naming.check_queue_group("two words")
