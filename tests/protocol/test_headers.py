"""Headers: what is built reads back; what others write is read leniently; what is not a block is an error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natsync.protocol import HeaderBlock, ProtocolError, build_headers, parse_headers

PARSED = [
    (b"NATS/1.0\r\n\r\n", HeaderBlock()),
    (b"NATS/1.0", HeaderBlock()),
    (b"NATS/1.0  \t\r\n", HeaderBlock()),
    (b"NATS/1.0 503\r\n\r\n", HeaderBlock(503)),
    (b"NATS/1.0503\r\n\r\n", HeaderBlock(503)),
    (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", HeaderBlock(100, b"Idle Heartbeat")),
    (b"NATS/1.0\t404  No Messages \r\n\r\n", HeaderBlock(404, b"No Messages")),
    (b"NATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n", HeaderBlock(503, b"", [(b"Nats-Subject", b"nobody")])),
    (b"NATS/1.0\r\nA:1\r\na: 2\r\nA:3 \r\n", HeaderBlock(fields=[(b"A", b"1"), (b"a", b"2"), (b"A", b"3")])),
    (b"NATS/1.0\r\nA:\r\nB: \r\n\r\n", HeaderBlock(0, b"", [(b"A", b""), (b"B", b"")])),
    (b"NATS/1.0\r\nA: b:c: d\r\n\r\n", HeaderBlock(0, b"", [(b"A", b"b:c: d")])),
    (b"NATS/1.0\nA: b\n\n", HeaderBlock(0, b"", [(b"A", b"b")])),
    (b"NATS/1.0\r\nA: b", HeaderBlock(0, b"", [(b"A", b"b")])),
    (b"NATS/1.0\r\nA: b\r\n c\r\n\td \r\n\r\n", HeaderBlock(0, b"", [(b"A", b"b c d")])),
    (b"NATS/1.0\r\nA:\r\n c\r\n\r\n", HeaderBlock(0, b"", [(b"A", b"c")])),
    (b"NATS/1.0\r\n: nameless\r\nA: b\r\n\r\n", HeaderBlock(0, b"", [(b"A", b"b")])),
    (b"NATS/1.0\r\nA b: \xff\x00\r\n\r\n", HeaderBlock(0, b"", [(b"A b", b"\xff\x00")])),
    (b"NATS/1.0\r\n \r\nA: b\r\n\r\n", HeaderBlock(0, b"", [(b"A", b"b")])),
]  # fmt: skip
REFUSED = [
    (b"", "header block without NATS/1.0", None, b""),
    (b"hel", "header block without NATS/1.0", None, b"hel"),
    (b"NATS/2.0 503\r\n\r\n", "header block without NATS/1.0", None, b"NATS/2.0"),
    (b"nats/1.0\r\n\r\n", "header block without NATS/1.0", None, b"nats/1.0"),
    (b"NATS/1.0 50\r\n\r\n", "header block with a status that is not three digits", 8, b""),
    (b"NATS/1.0 5O3\r\n\r\n", "header block with a status that is not three digits", 8, b""),
    (b"NATS/1.0 5033\r\n\r\n", "header block with a status that is not three digits", 8, b""),
    (b"NATS/1.0\r\nA: b\r\nnothing\r\n\r\n", "header line without a colon", 16, b""),
    (b"NATS/1.0\r\n folded\r\n\r\n", "header block that begins with a folded line", 10, b""),
]

names = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1
).map(str.encode)
values = st.binary(max_size=30).map(lambda text: text.translate(None, delete=b"\r\n\0"))
fields = st.lists(st.tuples(names, values), max_size=6)


@pytest.mark.parametrize("block, parsed", PARSED, ids=lambda value: repr(value)[:60])
def test_what_is_read(block: bytes, parsed: HeaderBlock) -> None:
    assert parse_headers(block) == parsed


@pytest.mark.parametrize(
    "block, reason, offset, snippet", REFUSED, ids=lambda value: repr(value)[:50]
)
def test_what_is_refused(block: bytes, reason: str, offset: int | None, snippet: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_headers(block)
    error = caught.value
    assert (error.reason, error.offset, error.snippet) == (reason, offset, snippet)


@settings(deadline=None)
@given(fields, st.just(0) | st.integers(100, 999), values)
def test_what_is_built_reads_back(
    given_fields: list[tuple[bytes, bytes]], status: int, text: bytes
) -> None:
    description = text if status else b""
    block = build_headers(given_fields, status, description)
    assert block.startswith(b"NATS/1.0") and block.endswith(b"\r\n\r\n")
    assert parse_headers(block) == HeaderBlock(
        status,
        description.strip(b" \t"),
        [(name, value.strip(b" \t")) for name, value in given_fields],
    )


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=60)
    | st.lists(
        st.sampled_from(
            [b"NATS/1.0", b" ", b"\t", b"\r\n", b"\n", b"\r", b":", b"A", b"503", b"\xff"]
        ),
        max_size=20,
    ).map(lambda words: b"NATS/1.0" + b"".join(words))
)
def test_any_bytes_are_a_block_or_an_error(block: bytes) -> None:
    try:
        parsed = parse_headers(block)
    except ProtocolError as error:
        assert error.offset is None or 0 <= error.offset <= len(block)
    else:
        assert all(name for name, _ in parsed.fields)
        assert parsed.status == 0 or parsed.status <= 999


@pytest.mark.parametrize(
    "fields, status, description, block",
    [
        ([], 0, b"", b"NATS/1.0\r\n\r\n"),
        ([], 503, b"", b"NATS/1.0 503\r\n\r\n"),
        ([], 100, b"Idle Heartbeat", b"NATS/1.0 100 Idle Heartbeat\r\n\r\n"),
        ([(b"A", b"1"), (b"A", b"")], 0, b"", b"NATS/1.0\r\nA: 1\r\nA: \r\n\r\n"),
    ],
)
def test_what_is_built(
    fields: list[tuple[bytes, bytes]], status: int, description: bytes, block: bytes
) -> None:
    assert build_headers(fields, status, description) == block


@pytest.mark.parametrize("name", [b"", b"a b", b"a:b", b":", b"a\r", b"\xc3\xa4", b"\x7f", b"a\n"])
def test_names_that_no_block_can_carry(name: bytes) -> None:
    with pytest.raises(ProtocolError, match="header name that is not printable ASCII"):
        build_headers([(name, b"x")])


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\0b", b"a\r\nB: injected"])
def test_values_that_no_block_can_carry(value: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        build_headers([(b"Name", value)])
    assert caught.value.snippet == b"Name"
    with pytest.raises(ProtocolError, match="status description"):
        build_headers([], 503, value)


@pytest.mark.parametrize(
    "status, description", [(1, b""), (99, b""), (1000, b""), (-503, b""), (0, b"x")]
)
def test_a_status_has_three_digits(status: int, description: bytes) -> None:
    with pytest.raises(ProtocolError, match="is not three digits"):
        build_headers([], status, description)
