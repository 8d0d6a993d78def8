"""What one side of a connection sends is told apart by all of its columns, and headers repeat no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.kernel.frame_block import FrameBlock, Sender
from dissect.nats.schema.records import Record
from dissect.nats.secrets.redact import NO_SECRETS

from tests.dissector.fuzzing.kernel import TABLES
from tests.dissector.kernel.both import KERNEL, kept_of
from tests.support.conversations import INFO
from tests.support.damage import Pcap, read_pcap
from tests.support.pcapwriter import Conversation, pcap_file

FRAMES = [tables for tables in TABLES if "frames" in tables]
SEED = "SUA" + "B" * 55
# A secret, a mailbox that is shown, an address, a seed, names that become one, a repeated name, and a status.
HEADERS = [
    b"NATS/1.0\r\nA: of hunter%d\r\nB: plain\r\n\r\n",
    b"NATS/1.0\r\nmail: joe%d@example.com\r\n\r\n",
    b"NATS/1.0\r\nurl: nats://joe:word%d@example.com\r\n\r\n",
    b"NATS/1.0\r\nkey%d: " + SEED.encode() + b"\r\n\r\n",
    b"NATS/1.0\r\nhunter1: a\r\n***: b%d\r\n\r\n",
    b"NATS/1.0\r\nC: hunter%d\r\nC: b\r\n\r\n",
    b"NATS/1.0 500 no hunter%d\r\n\r\n",
    b"NATS/1.0\r\nD: plain%d\r\n\r\n",
]


def test_senders_with_the_same_columns_are_one() -> None:
    one = Sender("0" * 16, "originator", "client", "", NO_SECRETS)
    assert {one, Sender("0" * 16, "originator", "client", "", NO_SECRETS)} == {one}
    assert one != one._replace(account="A")


def test_a_block_is_released_as_records_are() -> None:
    assert issubclass(FrameBlock, Record)


def capture(connections: int) -> Pcap:
    """Connections with passwords `hunter0`, `hunter1` ... whose headers repeat their own or another one."""
    made = []
    for number in range(connections):
        one = Conversation(("10.0.0.1", 1024 + number))
        one.handshake().from_server(INFO)
        one.from_client(b'CONNECT {"user":"joe","pass":"hunter%d"}\r\nSUB a 1\r\n' % number)
        for each in range(80):
            head = HEADERS[each % len(HEADERS)] % (each % 3)
            line = b"HPUB a %d %d\r\n" % (len(head), len(head))
            one.from_client(line + head + b"\r\n")
            one.from_server(b"HMSG a 1 %d %d\r\n%s\r\n" % (len(head), len(head), head))
        made += one.records
    return read_pcap(pcap_file(made))


pytestmark = KERNEL


@pytest.mark.parametrize("connections", [1, 3, 70])
@pytest.mark.parametrize("tables", FRAMES, ids=len)
def test_secrets_are_masked_as_without_the_kernel(
    tables: tuple[str, ...], connections: int, tmp_path: Path
) -> None:
    kept = kept_of(capture(connections), tmp_path, 4000, tables)
    assert kept > 100 * connections
