"""Subjects of subscriptions, and the rules that compare them with those of requests and of links."""

from __future__ import annotations

from contextlib import closing
from random import Random

import pytest

from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.audit.sql.subjects import SHAPES, matches
from dissect.nats.output.duckdb import connect, library
from dissect.nats.schema.records import Record, RequestRecord, SessionRecord, SubscriptionRecord

from tests.support.audit import compiled_findings, detection_text, findings, rule_text, session

S = 10**9
CLIENT, SERVICE, LINK = "00000000000000aa", "00000000000000bb", "00000000000000cc"


def accepts(pattern: str, subject: str) -> bool:
    """Whether a subject matches one that may have wildcards, as the server compares them."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if ">" in wanted[:-1]:
        return pattern == subject
    if wanted[-1] == ">" and len(tokens) >= len(wanted):
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
    return len(wanted) == len(tokens) and all(w in ("*", t) for w, t in zip(wanted, tokens))


def matched(subjects: list[str], patterns: list[str]) -> set[tuple[str, str]]:
    """Subjects and those of `patterns` with wildcards that match them, with DuckDB."""
    found, steps = matches("g1", ["literal"], ["wild"], Dialect.DUCKDB)
    with closing(connect(library(), ":memory:", {})) as connection:
        for name, values in ("literal", subjects), ("wild", patterns):
            connection.execute(f"CREATE TABLE {name} (g1 VARCHAR)")
            connection.executemany(f"INSERT INTO {name} VALUES (?)", [[each] for each in values])
        sql = f"WITH {', '.join(steps)} SELECT subject, pattern FROM {found}"
        rows = connection.execute(sql).fetchall()
    assert len(rows) == len(set(rows))
    return {(subject, pattern) for subject, pattern in rows if subject != pattern}


@pytest.mark.parametrize("seed", range(10))
def test_wildcards_match_as_the_server_compares_them(seed: int) -> None:
    random = Random(seed)

    def some(tokens: list[str], number: int) -> list[str]:
        made = [random.choices(tokens, k=random.randint(1, 4)) for _ in range(number)]
        return [".".join(each) for each in made]

    subjects = some(["a", "b", "b>", "*a", "", "é"], 40)
    patterns = some(["a", "b", "*", "*", ">", "b>", "*a"], 60)
    assert matched(subjects, patterns) == {
        (subject, pattern)
        for subject in subjects
        for pattern in patterns
        if subject != pattern and accepts(pattern, subject)
    }


def test_of_too_many_shapes_the_usual_ones_are_matched() -> None:
    usual = ["a.*.c", "b.*.c"]
    odd = [
        ".".join("*" * bit or "x" for bit in map(int, f"{n:010b}")) for n in range(1, SHAPES + 9)
    ]
    assert matched(["a.b.c"], odd + usual) == {("a.b.c", "a.*.c")}


def subscribed(subject: str, owner: str = SERVICE, at: int = 1, **columns: object) -> Record:
    values: dict[str, object] = {
        "session": owner,
        "sid": "1",
        "subject": subject,
        "sender": "originator",
    }
    values |= {"opened_ns": at * S, "delivered": 0, "delivered_bytes": 0}
    return SubscriptionRecord(**(values | columns))  # type: ignore[arg-type]  # columns of any type


def refused(*times: int, subject: str = "orders.eu", owner: str = CLIENT) -> list[Record]:
    """Requests at these seconds that nobody served."""
    return [
        RequestRecord(
            session=owner,
            subject=subject,
            reply=f"_INBOX.{time}",
            sent_ns=time * S,
            replied_ns=time * S + 1,
            latency_ns=None,
            status=503,
            outcome="no_responders",
            error_code=None,
            request_bytes=1,
            reply_bytes=0,
            responses=0,
        )
        for time in times
    ]


def client(owner: str, server: str, account: str | None) -> SessionRecord:
    return session(session=owner, server_name=server, account=account)


def lost(account: str | None = None, **columns: object) -> SessionRecord:
    """A link between the servers `near` and `far` that ended after 10 seconds."""
    values: dict[str, object] = {"session": LINK, "kind": "route", "end": "rst", "account": account}
    values |= {"server_name": "near", "remote_name": "far", "last_ns": 10 * S}
    return session(**(values | columns))


def named(rule: str, rows: list[Record]) -> list[str | None]:
    """The subjects of what a rule of the package finds."""
    return [one.subject for one in compiled_findings(rule, rows)]


def of_link(subject: str, account: str | None, **columns: object) -> Record:
    return subscribed(
        subject, LINK, 1, account=account, close="session", closed_ns=10 * S, **columns
    )


@pytest.mark.parametrize("subject", ["orders.eu", "orders.*", "orders.>", ">", "*.eu"])
@pytest.mark.parametrize("queue", [None, "workers"])
def test_interest_that_was_lost_may_have_wildcards_and_a_queue(
    subject: str, queue: str | None
) -> None:
    rows = [lost(), client(CLIENT, "near", "SHOP"), of_link(subject, "SHOP", queue=queue)]
    assert named("interest-lost", [*rows, *refused(11, 12)]) == [subject]
    assert named("interest-lost", [*rows, *refused(21)]) == []


@pytest.mark.parametrize("subject", ["orders", "orders.eu.>", "orders.*.*", "order.>", "Orders.eu"])
def test_other_interest_that_was_lost_is_no_reason(subject: str) -> None:
    rows = [lost(), client(CLIENT, "near", "SHOP"), of_link(subject, "SHOP")]
    assert named("interest-lost", [*rows, *refused(11)]) == []


@pytest.mark.parametrize(
    ("of_client", "of_interest", "finds"),
    [("SHOP", "SHOP", 1), ("SHOP", "BANK", 0), (None, "SHOP", 1), ("SHOP", None, 1)],
)
def test_interest_is_lost_in_one_account(
    of_client: str | None, of_interest: str | None, finds: int
) -> None:
    rows = [lost(), client(CLIENT, "near", of_client), of_link("orders.>", of_interest)]
    assert len(named("interest-lost", [*rows, *refused(11)])) == finds


def test_the_account_of_a_leafnode_is_the_one_at_the_hub() -> None:
    link = lost("SHOP", kind="leafnode", server_name="hub", remote_name="spoke")
    rows = [link, of_link("orders.>", None)]
    at_spoke, at_hub = client(CLIENT, "spoke", "$G"), client(CLIENT, "hub", "$G")
    assert named("interest-lost", [*rows, at_spoke, *refused(11)]) == ["orders.>"]
    assert named("interest-lost", [*rows, at_hub, *refused(11)]) == []
    two = lost("BANK", session="00000000000000dd", kind="leafnode", remote_name="spoke")
    own = client(CLIENT, "spoke", "SHOP")
    assert named("interest-lost", [*rows, two, own, *refused(11)]) == ["orders.>"]
    assert named("interest-lost", [*rows, two, at_spoke, *refused(11)]) == []


def stays(subject: str = "orders.>", account: str | None = "SHOP", at: int = 1) -> list[Record]:
    """A client on another server with a subscription that stays."""
    return [client(SERVICE, "far", account), subscribed(subject, at=at)]


ASKER = client(CLIENT, "near", "SHOP")


def test_interest_is_missing_where_requests_again_and_again_find_nobody() -> None:
    assert named("interest-missing", [ASKER, *stays(), *refused(3, 4, 5)]) == ["orders.>"]
    assert named("interest-missing", [ASKER, *stays(), *refused(3, 4, 5), *refused(6)]) == [
        "orders.>"
    ]
    assert named("interest-missing", [ASKER, *stays(), *refused(3)]) == []
    assert named("interest-missing", [ASKER, *stays(), *refused(3, 4)]) == []


def test_requests_before_a_service_came_miss_no_interest() -> None:
    assert named("interest-missing", [ASKER, *stays(at=6), *refused(3, 4, 5, 6, 7)]) == []
    assert named("interest-missing", [ASKER, *stays(at=6), *refused(3, 4, 7, 8, 9)]) == ["orders.>"]


def test_interest_in_another_account_is_not_missing() -> None:
    assert named("interest-missing", [ASKER, *stays(account="BANK"), *refused(3, 4, 5)]) == []
    assert named("interest-missing", [ASKER, *stays(account=None), *refused(3, 4, 5)]) == [
        "orders.>"
    ]


def test_an_unknown_account_is_not_guessed_from_two() -> None:
    other = [
        client("00000000000000dd", "far", "BANK"),
        subscribed("orders.>", "00000000000000dd"),
    ]
    unknown = client(CLIENT, "near", None)
    assert named("interest-missing", [unknown, *stays(), *refused(3, 4, 5)]) == ["orders.>"]
    assert named("interest-missing", [unknown, *stays(), *other, *refused(3, 4, 5)]) == []


def test_a_correlation_of_any_kind_puts_rows_into_the_groups_of_subscriptions() -> None:
    text = "---\n".join(
        [
            detection_text("  selection: {close: null}", "subscriptions", number=1),
            detection_text("  selection: {outcome: no_responders}", "requests", number=2),
            rule_text(
                "correlation:\n  type: event_count\n  rules: [rule-1, rule-2]\n  timespan: 1m\n"
                "  group-by: [subject]\n  condition: {gte: 2}\n",
                3,
            ),
        ]
    )
    rows = [
        subscribed("orders.*"),
        subscribed("orders.us"),
        *refused(3, 4),
        *refused(5, subject="x"),
    ]
    found = {one.subject: one.count for one in findings(text, rows)}
    assert found == {"orders.*": 3, "orders.eu": 2}
