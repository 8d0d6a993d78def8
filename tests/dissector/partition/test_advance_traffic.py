"""Captures cut anywhere: what summaries make of the states is what the packets make of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats import Options
from dissect.nats.options import Payload

from tests.bench.generate import Plan
from tests.dissector.partition.advancing import (
    INFO,
    ScriptedFlow,
    check,
    even,
    generated,
    msg,
    pub,
    sample,
)
from tests.dissector.samples.rows import PCAPS


@pytest.mark.parametrize("name", PCAPS)
@pytest.mark.parametrize("parts", [2, 5])
def test_advancing_by_summaries_gives_the_state_that_the_packets_of_a_sample_give(
    name: str, parts: int
) -> None:
    every = sample(name)
    check(every, even(len(every), parts))


@pytest.mark.parametrize(
    "name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap", "damaged-loss-reorder.pcap"]
)
@pytest.mark.parametrize(
    "tables", [["sessions"], ["flows"], ["frames"], ["requests"], ["subscriptions", "anomalies"]]
)
def test_advancing_by_summaries_gives_the_rows_of_each_table(name: str, tables: list[str]) -> None:
    every = sample(name)
    assert check(every, even(len(every), 4), tables).advanced


@pytest.mark.parametrize(
    "name", ["bulk-2.15.1.pcap", "core-2.15.1.pcap", "leafcluster-2.15.1.pcap"]
)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_advancing_by_summaries_is_exact_wherever_the_traffic_is_cut(
    name: str, data: st.DataObject
) -> None:
    every = sample(name)
    places = st.integers(1, len(every) - 1)
    cuts = sorted(data.draw(st.sets(places, min_size=1, max_size=5)))
    options = Options(payload=data.draw(st.sampled_from(Payload)))
    check(every, cuts, options=options)


def test_clean_traffic_advances_states(tmp_path: object) -> None:
    every = generated(Plan(packets=2500, seed=3), tmp_path)
    outcome = check(every, even(len(every), 4))
    assert outcome.advanced > 40
    assert not outcome.refused


def test_damaged_traffic_advances_states_where_it_is_clean(tmp_path: object) -> None:
    plan = Plan(packets=2500, seed=4, loss=0.002, reordered=0.003, duplicated=0.002)
    every = generated(plan, tmp_path)
    outcome = check(every, even(len(every), 6))
    assert outcome.advanced > 20
    assert outcome.unclean


_SUBJECTS = st.sampled_from([b"a.b", b"orders.new", b"_INBOX.x.1", b"bad.*", b"r.1"])
_BODIES = st.sampled_from(
    [
        b"",
        b"x" * 40,
        b"y" * 1500,
        b"z" * 990,
        pub(b"in.side", b"q" * 30) * 5,
        b"\r\nPING\r\nPONG\r\n" * 9,
    ]
)
_REPLIES = st.sampled_from([b"", b"", b"_INBOX.x.1", b"r.1", b"$JS.ACK.s.c.1.2.3.4.5"])
_WIRE = st.one_of(
    st.tuples(st.just(0), st.builds(pub, _SUBJECTS, _BODIES, _REPLIES)),
    st.tuples(st.just(1), st.builds(msg, _SUBJECTS, st.integers(1, 3), _BODIES, _REPLIES)),
    st.tuples(
        st.just(0),
        st.sampled_from(
            [
                b"PING\r\n",
                b"PONG\r\n",
                b"SUB a.b 1\r\n",
                b"SUB r.* 2\r\n",
                b"UNSUB 1 3\r\n",
                b"UNSUB 2\r\n",
            ]
        ),
    ),
    st.tuples(
        st.just(1),
        st.sampled_from(
            [
                b"PING\r\n",
                b"PONG\r\n",
                b"+OK\r\n",
                b"-ERR 'Slow'\r\n",
                INFO,
                INFO.replace(b"1000", b"64"),
            ]
        ),
    ),
)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_advancing_by_summaries_is_exact_for_any_conversation(data: st.DataObject) -> None:
    flow = ScriptedFlow(greeted=data.draw(st.booleans()))
    for side, wire in data.draw(st.lists(_WIRE, min_size=4, max_size=30)):
        if data.draw(st.booleans()):
            flow.raw(side, wire)
        else:
            flow.say(side, wire, data.draw(st.sampled_from([7, 100, 1448])))
    every = flow.segments
    places = st.integers(1, len(every) - 1)
    cuts = sorted(data.draw(st.sets(places, min_size=1, max_size=4)))
    check(every, cuts)
