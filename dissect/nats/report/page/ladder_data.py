"""Ladders as data for the page's script: frames of sessions, hops of messages. Each text is stored once."""

from __future__ import annotations

from ...questions.ask import AnswerRow
from ..answers import Answers
from ..ladders import Sample
from .escaping import inert

Json = dict[str, object]


class DistinctTexts:
    """Distinct texts, with their numbers."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        """The number of a text; a new text gets the next number."""
        return self.texts.setdefault(inert(text), len(self.texts))


def ladder_data(found: Answers) -> Json:
    """All sampled sessions and messages."""
    texts = DistinctTexts()
    rows = {row.session: row for row in found.connections.sessions}
    sessions = [
        _session(texts, name, sample, rows.get(name))
        for name, sample in found.ladders.samples.items()
    ]
    messages = [_message(texts, hops, rows) for hops in found.ladders.messages]
    return {"sessions": sessions, "messages": messages, "texts": list(texts.texts)}


def _session(texts: DistinctTexts, name: str, sample: Sample, row: AnswerRow | None) -> Json:
    rungs = sample.rungs
    start = rungs[0].ts_ns if rungs else 0
    return {
        "id": name,
        "kind": row.kind if row else "",
        "ends": [
            inert(row.who) if row else "originator",
            inert(row.server) if row else "responder",
        ],
        "count": sample.count,
        "start": str(start),
        "frames": [
            [
                rung.number,
                rung.ts_ns - start,
                rung.packet,
                int(rung.sender == "responder"),
                texts.number(rung.op),
                texts.number(rung.subject),
                texts.number(rung.reply),
                rung.bytes,
                texts.number(rung.note),
            ]
            for rung in rungs
        ],
    }


def _message(texts: DistinctTexts, hops: list[AnswerRow], rows: dict[str, AnswerRow]) -> Json:
    first = hops[0]
    people: dict[str, int] = {}

    def person(server: str | None, hop: AnswerRow) -> int:
        row = rows.get(hop.session)
        client = f"{row.who} " if row else ""
        name = server or f"{client}({hop.session[:8]})"
        return people.setdefault(inert(name), len(people))

    steps = [
        [
            hop.ts_ns - first.ts_ns,
            person(hop.from_server, hop),
            person(hop.to_server, hop),
            texts.number(hop.op),
            texts.number(hop.subject or ""),
            hop.session,
            hop.number,
            texts.number(hop.matched_by or "publication"),
        ]
        for hop in hops
    ]
    return {
        "id": first.message,
        "label": inert(first.subject or ""),
        "start": str(first.ts_ns),
        "people": list(people),
        "copies": first.copies,
        "hops": steps,
    }
