"""What may be handed over, and in which grammar."""

from __future__ import annotations

from dissect.nats.kernel.handover import OPERATIONS, candidate, grammar_of, is_quiet
from dissect.nats.kernel.state import Op
from dissect.nats.tcp.flow import End, Flow, Side
from dissect.nats.tcp.reassembly import Stream
from dissect.nats.types import Direction
from natsync.protocol import Context, Kind, Role

ONE, OTHER = b"\n\0\0\1\n\0\0\2\0\1\0\2", b"\n\0\0\2\n\0\0\1\0\2\0\1"


def quiet_flow() -> Flow:
    sides = Side(ONE, Direction.ORIGINATOR, Stream()), Side(OTHER, Direction.RESPONDER, Stream())
    sides[0].stream.next_seq = 5
    return Flow("x", ONE, "", 1, 1, False, False, sides)


def test_operations_have_their_classes() -> None:
    names = {"OK": "+OK", "RHMSG": "HMSG"}
    assert [names.get(op.name, op.name) for op in Op] == [kind.op for kind in OPERATIONS]


def test_a_flow_that_ends_or_waits_is_not_quiet() -> None:
    assert is_quiet(quiet_flow())
    for name, value in {"end": End.FIN, "closed_ns": 1, "over": True, "is_shared": True}.items():
        flow = quiet_flow()
        setattr(flow, name, value)
        assert not is_quiet(flow), name
    for name, value in {"fin": True, "reset": 1, "window_watched": True, "is_part": True}.items():
        flow = quiet_flow()
        setattr(flow.sides[1], name, value)
        assert not is_quiet(flow), name
    flow = quiet_flow()
    flow.sides[0].stream.next_seq = -1
    assert not is_quiet(flow)


def test_a_flow_without_connection_is_no_candidate() -> None:
    assert candidate(quiet_flow(), None, None) is None


def test_each_context_has_a_grammar() -> None:
    assert grammar_of(Context(Role.CLIENT)) == "CLIENT"
    assert grammar_of(Context(Role.SERVER, Kind.ROUTE, dedicated=True)) == "DEDICATED"
    assert grammar_of(Context(Role.SERVER, Kind.GATEWAY)) == "GATEWAY_BACK"
    assert grammar_of(Context(Role.SERVER, Kind.LEAFNODE)) == "LEAFNODE"
