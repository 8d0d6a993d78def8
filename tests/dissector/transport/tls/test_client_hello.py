"""The ClientHello: names, protocols, and fingerprints that other tools give as well."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from dissect.nats import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FlowRecord
from dissect.nats.transport.tls.client_hello import extensions, read_client_hello

from tests.support.paths import CAPTURES

# A Chrome: the example of FoxIO's description of JA4, whose list of extensions is sorted.
SUITES = "1301 1302 1303 c02b c02f c02c c030 cca9 cca8 c013 c014 009c 009d 002f 0035"
EXTENSIONS = "0000 0017 ff01 000a 000b 0023 0010 0005 000d 0012 0033 002d 002b 001b 4469 0015"
SIGNATURES = "0403 0804 0401 0503 0805 0501 0806 0601"


def sized(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "big") + data


def hello(suites: str, kinds: Iterable[str], contents: dict[str, bytes]) -> bytes:
    body = b"".join(bytes.fromhex(kind) + sized(contents.get(kind, b""), 2) for kind in kinds)
    return (
        b"\x03\x03" + b"r" * 32 + b"\0" + sized(bytes.fromhex(suites), 2) + b"\1\0" + sized(body, 2)
    )


CONTENTS = {
    "0000": sized(b"\0" + sized(b"nats.example", 2), 2),
    "0010": sized(sized(b"h2", 1) + sized(b"http/1.1", 1), 2),
    "000a": sized(bytes.fromhex("1a1a 001d 0017"), 2),
    "000b": b"\1\0",
    "000d": sized(bytes.fromhex(SIGNATURES), 2),
    "002b": sized(bytes.fromhex("2a2a 0304 0303"), 1),
}


def test_what_it_asks_for() -> None:
    found = read_client_hello(hello(SUITES, EXTENSIONS.split(), CONTENTS))
    assert found
    assert (found.random, found.version) == (b"r" * 32, 0x0303)
    assert found.server_name == "nats.example"
    assert found.protocols == ["h2", "http/1.1"]


def test_the_fingerprint_that_foxio_publishes() -> None:
    """GREASE (RFC 8701) does not change it."""
    for suites, kinds in ((SUITES, EXTENSIONS), ("3a3a" + SUITES, "4a4a " + EXTENSIONS + " 5a5a")):
        found = read_client_hello(hello(suites, kinds.split(), CONTENTS))
        assert found and found.ja4 == "t13d1516h2_8daaf6152771_e5627efa2ab1"


def test_the_fingerprint_that_wireshark_computes() -> None:
    """tshark 4.0 says so of the connection to port 8443 (`tls.handshake.ja3`)."""
    path = str(CAPTURES / "tls-keys-2.15.1.pcap")
    rows = (row for row in records([path], ["flows"], Options()) if isinstance(row, FlowRecord))
    found = {row.ja3 for row in rows if row.responder.endswith(":8443")}
    assert found == {"f146948b4a599d4d7ddf071b74696983"}


def test_a_bare_hello() -> None:
    found = read_client_hello(b"\x03\x01" + b"r" * 32)
    assert found
    assert (found.server_name, found.protocols, found.suites) == ("", [], ())
    assert found.ja4 == "t10i000000_000000000000_000000000000"
    odd = read_client_hello(hello("", ["0010"], {"0010": sized(sized(b"\xab\xcd", 1), 2)}))
    assert odd and odd.ja4.startswith("t12i0001ad_")
    assert read_client_hello(b"\x03\x01" + b"r" * 31) is None


@given(st.binary(min_size=34, max_size=200))
def test_any_bytes_are_taken(body: bytes) -> None:
    found = read_client_hello(body)
    assert found and len(found.ja3) == 32
    assert [len(part) for part in found.ja4.split("_")] == [10, 12, 12]
    assert found.server_name.isprintable() or found.protocols is not None
    extensions(body)


@given(st.integers(0, 250), st.integers(0, 255))
def test_one_wrong_byte_is_taken(at: int, byte: int) -> None:
    body = bytearray(hello(SUITES, EXTENSIONS.split(), CONTENTS))
    body[at % len(body)] = byte
    found = read_client_hello(bytes(body))
    assert found and len(found.ja3) == 32 and found.ja4
