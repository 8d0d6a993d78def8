"""The data of ladders: what the page's script reads is what the rows say."""

from __future__ import annotations

import json
from typing import Any

from dissect.nats.questions.ask import tables_read
from dissect.nats.report.answers import QUESTIONS
from dissect.nats.report.page.ladder_data import ladder_data
from dissect.nats.schema.records import FrameRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES
from tests.support.report import answers

GATEWAY = CAPTURES / "gateway-2.15.1.pcap"


def data() -> Any:
    found = answers(rows([GATEWAY], tables_read(QUESTIONS)))
    return json.loads(json.dumps(ladder_data(found)))


def test_a_ladder_has_every_frame_of_its_session() -> None:
    ladder = data()
    texts = ladder["texts"]
    every = [row for row in rows([GATEWAY]) if isinstance(row, FrameRecord)]
    assert {session["id"] for session in ladder["sessions"]} == {row.session for row in every}
    for session in ladder["sessions"]:
        frames = sorted(
            (row for row in every if row.session == session["id"]), key=lambda row: row.number
        )
        assert session["count"] == len(frames)
        assert [
            (number, int(session["start"]) + at, side, texts[op], texts[subject], texts[reply])
            for number, at, _, side, op, subject, reply, *_ in session["frames"]
        ] == [
            (
                row.number,
                row.ts_ns,
                int(row.sender == "responder"),
                row.op,
                (row.subject or "") + (f" [{row.queue}]" if row.queue else ""),
                row.reply or "",
            )
            for row in frames
        ]


def test_a_way_from_a_client_over_two_servers_to_a_client() -> None:
    ladder = data()
    way = next(message for message in ladder["messages"] if len(message["hops"]) == 3)
    names = [(way["people"][hop[1]], way["people"][hop[2]]) for hop in way["hops"]]
    assert [to for _, to in names[:-1]] == [who for who, _ in names[1:]]
    assert names[0][0].startswith("east's") and "(" in names[-1][1]
    assert {names[0][1], names[1][1]} == {"east-1", "west-1"}
