"""What a message keeps on its way."""

from __future__ import annotations

from dissect.nats.application.paths.hops import hop_of

from tests.dissector.application.scripted_session import Nothing, ScriptedSession

ACK = "$JS.ACK.S.C.2.7.9.1795213358078505028.0"


def test_a_frame_equals_the_same_message_elsewhere() -> None:
    session = ScriptedSession(Nothing())
    here = hop_of(session.pub("a", b"x", "_INBOX.1", X="1"))
    there = hop_of(session.link("originator", "a", b"x", "_GR_.abcdef.ghijkl._INBOX.1", X="1"))
    back = hop_of(session.link("originator", "_GR_.abcdef.ghijkl.a", b"x", "_INBOX.1", X="1"))
    assert here[7:8] + here[9:11] == there[7:8] + there[9:11] == back[7:8] + back[9:11]
    other = hop_of(session.pub("a", b"x", "_INBOX.1", X="2"))
    traced = hop_of(session.pub("a", b"x", "_INBOX.1", X="1", Nats_Trace_Hop="1.2"))
    assert other.content != here.content == traced.content


def test_deliveries_say_where_they_are_stored() -> None:
    session = ScriptedSession(Nothing())
    client = hop_of(session.msg("st.a", b"x", ACK))
    route = hop_of(session.link("originator", "_INBOX.pull", b"x", f"{ACK}@st.a"))
    for hop in (client, route):
        assert (hop.subject, hop.reply, hop.place, hop.attempt) == (
            "st.a",
            None,
            ("S", 7),
            2,
        )
    assert client.content == route.content and client.line != route.line


def test_a_payload_that_is_cut_equals_nothing() -> None:
    session = ScriptedSession(Nothing())
    cut = session.frame("responder", "MSG", "a", b"x\0", None, {})
    cut.captured_bytes = 1
    assert hop_of(cut).content != hop_of(session.msg("a", b"x\0")).content


def test_contents_that_jetstream_may_change() -> None:
    session = ScriptedSession(Nothing())
    cut = session.frame("responder", "MSG", "a", b"x\0", None, {})
    cut.captured_bytes = 1
    changed = [cut, session.pub("a", b"x", Nats_TTL="5s"), session.msg("a", Nats_Msg_Size="1")]
    kept = [session.pub("a", b"x", X="1"), session.pub("a", b"x", Nats_Msg_Id="1")]
    assert [hop_of(frame).is_changed for frame in (*changed, *kept)] == [True] * 3 + [False] * 2


def test_without_payload_and_headers_the_subject_is_the_content() -> None:
    session = ScriptedSession(Nothing())
    here, there = hop_of(session.pub("a")), hop_of(session.link("originator", "a"))
    assert here.content == there.content != hop_of(session.pub("b")).content
    assert here.size == 0 and hop_of(session.pub("b", b"12", X="3")).size > 2


def test_a_payload_cannot_imitate_the_headers_or_the_subject_of_another_message() -> None:
    session = ScriptedSession(Nothing())
    with_headers = hop_of(session.pub("a", b"x", X="1"))
    for payload in (b"x('X', ['1'])", b"('X', ['1'])x", b"[('X', ['1'])]x", b"16 [('X', ['1'])]x"):
        assert hop_of(session.pub("a", payload)).content != with_headers.content
    assert hop_of(session.pub("a", b"a")).content != hop_of(session.pub("a")).content
