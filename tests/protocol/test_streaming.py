"""NATS Streaming's messages: equal to google protobuf's both ways; what is not a message is one error."""

from __future__ import annotations

import random
from dataclasses import fields, replace

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from natsync.protocol import ProtocolError
from natsync.protocol import streaming as stan
from natsync.protocol.streaming import MESSAGES, StreamingMessage, is_channel

from tests.protocol import fuzz_streaming

# The schema once more, as stan.go's pb/protocol.proto has it: (number, type) of each field, in order.
PROTO: dict[str, str] = {
    "ConnectRequest": "1 string 2 string 3 int32 4 bytes 5 int32 6 int32",
    "ConnectResponse": "1 string 2 string 3 string 4 string 5 string 6 string 7 string 8 int32 9 int32 "
    "10 int32 100 string",
    "Ping": "1 bytes",
    "PingResponse": "1 string",
    "PubMsg": "1 string 2 string 3 string 4 string 5 bytes 6 bytes 10 bytes",
    "PubAck": "1 string 2 string",
    "MsgProto": "1 uint64 2 string 3 string 4 bytes 5 int64 6 bool 7 uint32 10 uint32",
    "Ack": "1 string 2 uint64",
    "SubscriptionRequest": "1 string 2 string 3 string 4 string 5 int32 6 int32 7 string 10 enum 11 uint64 "
    "12 int64",
    "SubscriptionResponse": "2 string 3 string",
    "UnsubscribeRequest": "1 string 2 string 3 string 4 string",
    "CloseRequest": "1 string",
    "CloseResponse": "1 string",
}
# Recorded from nats-streaming-server 0.25 and stan.go 0.10.4.
RECORDED = [
    (
        stan.ConnectRequest(
            "cli_1", "_INBOX.yAchKSutkR8ua352nTOKq8", 1, b"yAchKSutkR8ua352nTOKnR", 1, 3
        ),
        "0a05636c695f31121d5f494e424f582e794163684b5375746b523875613335326e544f4b713818012216794163684b53"
        "75746b523875613335326e544f4b6e5228013003",
    ),
    (
        stan.PubMsg("cli_1", "CosCx5Bi6M7Wk6nV8nxxTn", "foo", "", b"m1", b"yAchKSutkR8ua352nTOKnR"),
        "0a05636c695f311216436f734378354269364d37576b366e56386e7878546e1a03666f6f2a026d313216794163684b53"
        "75746b523875613335326e544f4b6e52",
    ),
    (
        stan.PubAck("CosCx5Bi6M7Wk6nV8nxxTn"),
        "0a16436f734378354269364d37576b366e56386e7878546e",
    ),
    (
        stan.PubAck(error="stan: invalid publish request"),
        "121d7374616e3a20696e76616c6964207075626c6973682072657175657374",
    ),
    (
        stan.SubscriptionRequest(
            *("cli_1", "foo", "", "_INBOX.yAchKSutkR8ua352nTOKtK", 10, 1, "dur"),
            start_position=stan.StartPosition.FIRST,
        ),
        "0a05636c695f311203666f6f221d5f494e424f582e794163684b5375746b523875613335326e544f4b744b280a30013a"
        "036475725004",
    ),
    (
        stan.SubscriptionResponse("_INBOX.RdHzRyQQyJ3UDEPEqR3vOJ"),
        "121d5f494e424f582e5264487a52795151794a335544455045715233764f4a",
    ),
    (
        stan.MsgProto(1, "foo", "", b"m1", 1795212161536482187, True, 1),
        "08011203666f6f22026d31288bb7df86b1fef7f41830013801",
    ),
    (stan.Ack("foo", 4), "0a03666f6f1004"),
    (stan.PingResponse(), ""),
]
# Each with the position of the field that is wrong.
REFUSED = [
    (stan.PubAck, "0a", 0, "PubAck with a truncated field"),
    (stan.PubAck, "0a0161 0a0261", 3, "PubAck with a truncated field"),
    (stan.PubAck, "0a0161 8a", 3, "PubAck with a truncated field"),
    (stan.PubAck, "1aff", 0, "PubAck with a truncated field"),
    (stan.PubAck, "0affffffffffffffffff01", 0, "PubAck with a truncated field"),
    (stan.PubAck, "0affffffffffffffffff02", 1, "a number of more than 64 bits"),
    (stan.PubAck, "0a80808080808080808080 00", 1, "a number of more than 64 bits"),
    (stan.PubAck, "0801", 0, "PubAck.guid with wire type 0"),
    (stan.PubAck, "0d00000000", 0, "PubAck.guid with wire type 5"),
    (stan.MsgProto, "0a0161", 0, "MsgProto.sequence with wire type 2"),
    (stan.MsgProto, "090000000000000000", 0, "MsgProto.sequence with wire type 1"),
    (stan.PubAck, "1d000000", 0, "PubAck with a truncated field"),
    (stan.PubAck, "1b1c", 0, "PubAck with wire type 3"),
    (stan.PubAck, "0f", 0, "PubAck with wire type 7"),
    (stan.PubAck, "0001", 0, "PubAck with the illegal field number 0"),
    (stan.PubAck, "808080801001", 0, "PubAck with the illegal field number 536870912"),
]  # fmt: skip


def make_schema() -> dict[str, type[Message]]:
    """The classes that google protobuf makes of PROTO. Text is declared as bytes: Go does not check it."""
    file = descriptor_pb2.FileDescriptorProto(name="stan.proto", package="pb", syntax="proto3")
    enum = file.enum_type.add(name="StartPosition")
    for position in stan.StartPosition:
        enum.value.add(name=position.name, number=position)
    for cls in MESSAGES:
        message = file.message_type.add(name=cls.__name__)
        words = PROTO[cls.__name__].split()
        names = [field.name for field in fields(cls) if field.name != "unknown"]
        for name, number, kind in zip(names, words[::2], words[1::2], strict=True):
            field = message.field.add(name=name, number=int(number), label="LABEL_OPTIONAL")
            field.type = f"TYPE_{kind.replace('string', 'bytes').upper()}"
            if kind == "enum":
                field.type_name = ".pb.StartPosition"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"pb.{cls.__name__}") for cls in MESSAGES)
    return {each.name: message_factory.GetMessageClass(each) for each in found}


GOOGLE = make_schema()


def values(message: StreamingMessage) -> dict[str, object]:
    """The fields of one of ours, text as the bytes on the wire."""
    found = {}
    for field in fields(message):
        value = getattr(message, field.name)
        found[field.name] = (
            value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        )
    del found["unknown"]
    return found


def values_of_google(message: Message) -> dict[str, object]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


NUMBERS = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "enum": st.integers(-(2**31), 2**31 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=200),
    "bytes": st.binary(max_size=300),
}


@st.composite
def messages(draw: st.DrawFn) -> StreamingMessage:
    cls = draw(st.sampled_from(MESSAGES))
    kinds = PROTO[cls.__name__].split()[1::2]
    return cls(*(draw(NUMBERS[kind]) for kind in kinds))


@pytest.mark.parametrize("message, wire", RECORDED, ids=lambda value: str(value)[:40])
def test_what_was_recorded_reads_and_is_written_again(message: StreamingMessage, wire: str) -> None:
    assert type(message).parse(bytes.fromhex(wire)) == message
    assert message.to_bytes() == bytes.fromhex(wire)


@pytest.mark.parametrize("cls, wire, offset, reason", REFUSED)
def test_what_is_refused(cls: type[StreamingMessage], wire: str, offset: int, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        cls.parse(bytes.fromhex(wire))
    assert (caught.value.reason, caught.value.offset) == (reason, offset)


@given(messages())
def test_google_protobuf_reads_and_writes_the_same(message: StreamingMessage) -> None:
    wire = message.to_bytes()
    google = GOOGLE[type(message).__name__].FromString(wire)
    assert values_of_google(google) == values(message)
    assert google.SerializeToString(deterministic=True) == wire
    assert type(message).parse(wire) == message


@given(st.sampled_from(MESSAGES), st.binary(max_size=60))
def test_any_bytes_read_as_google_protobuf_reads_them_or_are_refused(
    cls: type[StreamingMessage], wire: bytes
) -> None:
    compare(cls, wire)


@given(messages(), st.integers(0), st.integers(0, 255))
def test_damaged_messages_read_as_google_protobuf_reads_them_or_are_refused(
    message: StreamingMessage, at: int, byte: int
) -> None:
    wire = bytearray(message.to_bytes() or b"\n\0")
    wire[at % len(wire)] = byte
    compare(type(message), bytes(wire))


def compare(cls: type[StreamingMessage], wire: bytes) -> None:
    """What we read is what google protobuf reads, which takes more: a known field with another wire type is
    unknown to it, and it knows groups."""
    try:
        ours = cls.parse(wire)
    except ProtocolError as error:
        assert error.offset is not None and 0 <= error.offset < len(wire)
        if "wire type" not in error.reason and "64 bits" not in error.reason:
            with pytest.raises(DecodeError):
                GOOGLE[cls.__name__].FromString(wire)
        return
    assert values_of_google(GOOGLE[cls.__name__].FromString(wire)) == values(ours)
    assert cls.parse(ours.to_bytes()) == ours


def test_unknown_fields_are_kept_and_written_back() -> None:
    strange = bytes.fromhex("c03e07 ca3e026869 d13e0102030405060708 dd3e01020304")
    message = stan.PubAck.parse(b"\n\x01g" + strange + b"\x12\x01e")
    assert message == stan.PubAck("g", "e", unknown=strange)
    assert message.to_bytes() == b"\n\x01g\x12\x01e" + strange


def test_the_last_of_a_repeated_field_counts_in_any_order() -> None:
    assert stan.PubAck.parse(b"\x12\x01e\n\x01a\n\x01b") == stan.PubAck("b", "e")


def test_a_number_too_large_for_its_field_loses_its_high_bits() -> None:
    wire = b"\x38" + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert stan.MsgProto.parse(wire).redelivery_count == 2**32 - 1
    assert stan.SubscriptionRequest.parse(b"\x28" + wire[1:]).max_in_flight == -1


def test_text_that_is_no_utf_8_survives() -> None:
    message = stan.PubAck.parse(b"\n\x02\xff\xfe")
    assert message.to_bytes() == b"\n\x02\xff\xfe"


@pytest.mark.parametrize(
    "message, reason",
    [
        (stan.PubAck("\ud800"), "guid with a lone surrogate, which is not UTF-8"),
        (stan.Ack("a", -1), "sequence of -1 is out of the range of uint64"),
        (stan.Ack("a", 2**64), f"sequence of {2**64} is out of the range of uint64"),
        (
            stan.ConnectRequest(ping_interval=2**31),
            f"ping_interval of {2**31} is out of the range of int32",
        ),
        (
            stan.SubscriptionRequest(start_time_delta=-(2**63) - 1),
            f"start_time_delta of {-2**63 - 1} is out of the range of int64",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_cannot_be_written(message: StreamingMessage, reason: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        message.to_bytes()
    assert caught.value.reason == reason


def test_the_time_to_read_grows_with_the_size_alone() -> None:
    """Nothing but unknown fields, and a length that the payload does not have."""
    many = b"\xc0\x3e\x01" * 300_000
    assert stan.PubAck.parse(many).unknown == many
    with pytest.raises(ProtocolError):
        stan.PubAck.parse(b"\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f")


def test_messages_are_compared_by_their_fields() -> None:
    assert replace(stan.PubAck("g"), error="e") == stan.PubAck("g", "e") != stan.PubAck("g")
    assert repr(stan.PubAck("g", unknown=b"x")) == "PubAck(guid='g', error='')"


@pytest.mark.parametrize("name", ["a", "orders.new", "\xe9", "a-b_c:d", "a" * 1000])
def test_names_of_channels(name: str) -> None:
    assert is_channel(name)


@pytest.mark.parametrize(
    "name", ["", ".a", "a.", "a..b", "*", "a.>", "a*", "a/b", "a b", "a\r\nb", "\t", "a\n"]
)
def test_names_that_no_channel_may_have(name: str) -> None:
    assert not is_channel(name)


def test_a_second_of_fuzzing_breaks_no_law() -> None:
    runs, failure = fuzz_streaming.run(1, random.randrange(2**32))
    assert failure is None, failure
    assert runs > 100


def test_a_broken_law_is_printed_with_what_makes_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(cls: type[StreamingMessage], wire: bytes) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(fuzz_streaming, "check", broken)
    assert fuzz_streaming.main(["5", "--seed", "3"]) == 1
    printed = capsys.readouterr().out
    assert "KeyError('surprise')" in printed and "case_of(3, 0)" in printed
