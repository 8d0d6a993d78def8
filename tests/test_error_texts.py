"""Which texts of -ERR leave a connection open: client and dissector answer alike, for every text."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats import sessions
from natsync._engine.engine import Engine, Reported
from natsync.protocol import ConnectOptions, Kind, closes

from tests.support.error_texts import OPEN_TO
from tests.support.nats_session import capture, session

# Servers before 1.4.0 capitalised other words than later ones.
TEXTS = sorted({each for text in OPEN_TO for each in (text, text.lower(), text.upper())})


def stays_open_to_the_client(text: bytes) -> bool:
    """Whether the client, told this in an open conversation, does not take it for the reason of the end."""
    engine = Engine("h:1", lambda info: ConnectOptions(), ping_interval=10.0, max_pings_out=2)
    engine.receive(b'INFO {"server_id":"N","headers":true}\r\nPONG\r\n', 0.0)
    (event,) = engine.receive(b"-ERR '%b'\r\n" % text, 0.0)
    assert isinstance(event, Reported)
    return engine.reason is None


@pytest.fixture(scope="module")
def open_to_the_dissector(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, bool]:
    """Whether a connection that ends after this text was not ended by it. The name of each client says which
    text its server wrote."""
    conversations = [
        session(("<", b"-ERR '%b'\r\n" % text), connect={"name": str(number)})
        for number, text in enumerate(TEXTS)
    ]
    path: Path = capture(tmp_path_factory.mktemp("errors") / "errors.pcap", conversations)
    with sessions(path) as rows:
        ends = {int(row.client_name or -1): row.end for row in rows}
    assert set(ends.values()) == {"fin", "error"}
    return {text: ends[number] == "fin" for number, text in enumerate(TEXTS)}


@pytest.mark.parametrize("text", TEXTS)
def test_client_and_dissector_agree_on_what_stays_open(
    open_to_the_dissector: dict[bytes, bool], text: bytes
) -> None:
    stays_open = not closes(text, Kind.CLIENT)
    assert stays_open_to_the_client(text) is stays_open
    assert open_to_the_dissector[text] is stays_open
