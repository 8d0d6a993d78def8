"""HTTP in place of a WebSocket: an anomaly with its text, the facts of the request, and no session."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, FlowRecord

from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Conversation, pcap_file

GET = b"GET /nats HTTP/1.1\r\nHost: a:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
REDIRECT = b"HTTP/1.1 301 Moved Permanently\r\nLocation: https://a/nats\r\n\r\n"


def capture(folder: Path, request: bytes, response: bytes, size: int = 1460) -> str:
    conversation = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 8080))
    conversation.handshake()
    conversation.from_client(request, size=size)
    conversation.from_server(response, size=size)
    conversation.from_server(b"more " * 50)
    conversation.close()
    path = folder / "http.pcap"
    path.write_bytes(pcap_file(conversation.records))
    return str(path)


def rows(path: str) -> tuple[FlowRecord, list[AnomalyRecord]]:
    found = list(records([path], ("flows", "sessions", "anomalies")))
    flow, *others = (row for row in found if not isinstance(row, AnomalyRecord))
    assert isinstance(flow, FlowRecord) and not others
    return flow, [row for row in found if isinstance(row, AnomalyRecord)]


@pytest.mark.parametrize("size", [7, 1460])
def test_a_redirect_is_a_refusal_that_names_its_target(tmp_path: Path, size: int) -> None:
    flow, anomalies = rows(capture(tmp_path, GET, REDIRECT, size))
    assert (flow.protocol, flow.websocket_path, flow.websocket_host) == ("other", "/nats", "a:8080")
    (refused,) = anomalies
    assert (refused.anomaly, refused.sender) == ("websocket_refused", "responder")
    assert refused.text == "301 Moved Permanently, to https://a/nats"
    assert refused.session == flow.session


def test_other_http_is_no_anomaly(tmp_path: Path) -> None:
    path = capture(tmp_path, b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
    flow, anomalies = rows(path)
    assert (flow.protocol, flow.websocket_path, anomalies) == ("other", None, [])


@pytest.mark.parametrize(
    "request_, repeated",
    [
        (GET.replace(b"/nats", b"/nats?token=t0k%2Fen-of-bob"), "t0k%2Fen-of-bob"),
        (GET.replace(b"/nats", b"/nats?token=t0k%2Fen-of-bob"), "t0k/en-of-bob"),
        (GET.replace(b"/nats", b"/nats?t0ken-of-bob"), "t0ken-of-bob"),
        (GET.replace(b"/nats", b"/nats#t0ken-of-bob"), "t0ken-of-bob"),
        (GET.replace(b"/nats", b"http://bob:t0ken-of-bob@a/nats"), "t0ken-of-bob"),
        (GET[:-2] + b"Cookie: theme=dark; jwt=t0ken-of-bob\r\n\r\n", "t0ken-of-bob"),
        (GET[:-2] + b"Authorization: Bearer t0ken-of-bob\r\n\r\n", "t0ken-of-bob"),
    ],
)
@pytest.mark.parametrize(
    "refusal, text",
    [
        ("HTTP/1.1 403 no %s\r\n\r\n", "403 no ***"),
        ("HTTP/1.1 403 Forbidden\r\n\r\nno such token: %s\n", "403 Forbidden: no such token: ***"),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://b/login/%s\r\n\r\n",
            "302 Found, to https://b/login/***",
        ),
    ],
)
def test_a_refusal_repeats_no_secret_of_its_request(
    request_: bytes, repeated: str, refusal: str, text: str, tmp_path: Path
) -> None:
    _, (refused,) = rows(capture(tmp_path, request_, (refusal % repeated).encode()))
    assert refused.text == text


@pytest.mark.parametrize("size", [300, 5_000])
def test_the_stages_of_spark_give_the_same_rows(tmp_path: Path, size: int) -> None:
    path = capture(tmp_path, GET, REDIRECT)
    assert in_partitions([path], size) == in_one([path])
