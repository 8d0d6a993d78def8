"""`nats-dissect`: what options do, and what is said where nothing came out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissect.nats.capture import read_runs
from dissect.nats.cli import cli
from dissect.nats.commands.captures import slice as captures_slice
from dissect.nats.engine import dissection

from tests.support.conversations import INFO
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import Conversation, pcap_file

pytestmark = pytest.mark.usefixtures("worker_processes")

CORE = str(CAPTURES / "core-2.15.1.pcap")


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_an_empty_output_name_is_the_fault_of_the_option() -> None:
    done = run("sessions", "-o", "", CORE)
    assert done.exit_code == 2 and "'-o' / '--output': must be the name of a file" in done.stderr


def test_a_condition_that_no_row_matches() -> None:
    http = str(CAPTURES / "http.pcap")
    done = run("frames", "--where", "op = '-ERR'", str(CAPTURES / "bulk-2.15.1.pcap"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no row of frames matches --where in" in done.stderr and "NATS" not in done.stderr
    assert "no NATS found" in run("frames", http).stderr


def test_formulas_in_csv_are_texts_when_that_is_asked_for() -> None:
    args = ("sessions", "--format", "csv", "--columns", "client_name", CORE)
    assert run(*args, "--csv-safe").stdout == run(*args).stdout
    query = ("sql", "SELECT '=1' AS x, -5 AS y", CORE, "--format", "csv")
    assert run(*query).stdout == "x,y\n=1,-5\n"
    assert run(*query, "--csv-safe").stdout == "x,y\n'=1,-5\n"


def test_a_subject_is_shown_even_if_it_equals_the_password(tmp_path: Path) -> None:
    """Other connections have it, too, and do not know that it is a secret; errors mask it."""
    conversation = Conversation().handshake().from_server(INFO)
    conversation.from_client(b'CONNECT {"user":"u","pass":"swordfish"}\r\nSUB swordfish 1\r\n')
    conversation.from_server(b"-ERR 'Permissions Violation for Subscription to \"swordfish\"'\r\n")
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_file(conversation.records))
    done = run("frames", "--format", "jsonl", str(path))
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["op"] for row in rows] == ["INFO", "CONNECT", "SUB", "-ERR"]
    assert rows[2]["subject"] == "swordfish"
    assert "swordfish" not in rows[1]["json"] + rows[3]["error"]


def column(name: str, *args: str) -> list[str]:
    done = run(*args, "--columns", name, "--format", "csv")
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()[1:]


def test_rows_in_the_order_of_a_column() -> None:
    sizes = list(map(int, column("bytes_responder", "sessions", CORE, "--sort", "bytes_responder")))
    assert sizes == sorted(sizes) and len(set(sizes)) > 1
    for jobs in ("1", "2"):
        most = column(
            "bytes_responder",
            *("sessions", CORE, "--sort", "bytes_responder:desc", "--limit", "2", "--jobs", jobs),
        )
        assert list(map(int, most)) == sizes[:-3:-1]
    done = run("sessions", CORE, "--sort", "nope")
    assert done.exit_code == 2 and "--sort: sessions has no column 'nope'" in done.stderr


@pytest.mark.parametrize("session", ["7294", "729480e87f22a93d"])
def test_the_frames_of_a_conversation_in_the_order_of_a_column(session: str) -> None:
    sizes = list(map(int, column("total_bytes", "follow", session, CORE)))
    args = ("follow", session, CORE, "--sort", "total_bytes:desc", "--limit", "3")
    assert list(map(int, column("total_bytes", *args))) == sorted(sizes)[:-4:-1] != sizes[:3]
    lines = run(*args, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["total_bytes"] for line in lines] == sorted(sizes)[:-4:-1]


def test_a_conversation_as_text_has_the_order_of_time() -> None:
    done = run("follow", "7294", "--sort", "subject", CORE)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "nats-dissect: --sort does not go with a conversation as text, which is in order of time:"
        " choose --columns or another --format\n"
    )
    done = run("follow", "7294", "--columns", "op", "--sort", "nope", CORE)
    assert done.exit_code == 2 and "--sort: frames has no column 'nope'" in done.stderr


def test_packets_between_two_times() -> None:
    every = column("ts_ns", "frames", CORE)
    first_ns = int(column("first_ns", "flows", CORE)[0])
    middle_ns = first_ns + 500_000_000
    for middle in ("0.5", f"@{middle_ns // 10**9}.{middle_ns % 10**9:09}"):
        before = column("ts_ns", "frames", CORE, "--until", middle)
        assert before == [ts for ts in every if int(ts) < middle_ns] != []
        after = column("ts_ns", "frames", CORE, "--from", middle)
        assert set(after) <= {ts for ts in every if int(ts) >= middle_ns} and after
    assert "no row of frames matches" in run("frames", CORE, "--from", "2040-01-01").stderr
    assert run("frames", CORE, "--from", "soon").exit_code == 2


def test_connections_of_a_kind() -> None:
    kinds = column("kind", "sessions", str(CAPTURES), "--kind", "route", "--kind", "gateway")
    assert set(kinds) == {"route", "gateway"}


def test_separate_captures_give_the_rows_of_each(tmp_path: Path) -> None:
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes(Path(CORE).read_bytes())
    alone = column("messages_originator", "sessions", CORE)
    for jobs in ("1", "2"):
        args = ("sessions", str(tmp_path), "--separate", "--jobs", jobs)
        assert column("messages_originator", *args) == alone * 2
    assert "client 14" in run("info", str(tmp_path), "--separate").stdout


def test_captures_without_nats_name_what_they_carry(tmp_path: Path) -> None:
    http = str(CAPTURES / "http.pcap")
    assert (
        "no NATS found in 30 packets of 1 file; TCP connections: other 3"
        in run("frames", http).stderr
    )
    conversation = Conversation().handshake().from_client(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00")
    path = tmp_path / "tls.pcap"
    path.write_bytes(pcap_file(conversation.records))
    done = run("sessions", str(path))
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == (
        "nats-dissect: no NATS found in 5 packets of 1 file; TCP connections: tls 1 "
        "(`flows` lists them; TLS needs a key log: --keylog)\n"
    )


@pytest.mark.parametrize(("options", "count"), [([], 3), (["--separate"], 6)])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_captures_carry_is_counted_over_all_of_them(
    tmp_path: Path, jobs: str, options: list[str], count: int
) -> None:
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / name).write_bytes((CAPTURES / "http.pcap").read_bytes())
    done = run("sessions", str(tmp_path), "--jobs", jobs, *options)
    assert f"TCP connections: other {count}" in done.stderr


def test_what_captures_carry_is_known_from_the_first_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    def counted(*args: object, **named: object) -> object:
        read.append(args)
        return read_runs(*args, **named)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(dissection, "read_runs", counted)
    assert "other 3" in run("sessions", str(CAPTURES / "http.pcap")).stderr
    assert len(read) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str) -> None:
    variable = {"_NATS_DISSECT_COMPLETE": f"{shell}_source"}
    done = CliRunner().invoke(cli, [], prog_name="nats-dissect", env=variable)
    assert done.exit_code == 0 and "_NATS_DISSECT_COMPLETE" in done.stdout


def test_filters_that_no_row_matches_are_named() -> None:
    done = run("requests", "--kind", "route", "--from", "0", CORE)
    assert done.exit_code == 0
    assert done.stderr.startswith("nats-dissect: no row of requests matches --kind and --from in ")


def test_a_condition_is_not_empty() -> None:
    done = run("frames", "--where", " ", CORE)
    assert done.exit_code == 2 and done.stderr.endswith("an empty text is not a condition\n")


@pytest.mark.parametrize(
    "command, out",
    [
        ("frames", None),
        ("info", None),
        ("top", None),
        ("audit", None),
        ("slice", "-o"),
        ("report", "-o"),
        ("spark", "--out"),
    ],
)
def test_from_is_before_until(command: str, out: str | None, tmp_path: Path) -> None:
    outputs = (out, str(tmp_path / "out")) if out else ()
    done = run(command, "--from", "5", "--until", "2", CORE, *outputs)
    assert done.exit_code == 2
    assert done.stderr == "nats-dissect: --from is not before --until: no packet can match\n"


def test_an_hour_is_a_time() -> None:
    assert run("frames", "--from", "2026-11-21T02", "--until", "2026-11-21T03", CORE).stdout
    assert not run("frames", "--until", "2026-11-21T02", CORE).stdout


@pytest.mark.parametrize("command", [("servers", "--graph"), ("servers", "--format", "dot")])
@pytest.mark.parametrize(
    "option", ["--columns=server_name", "--sort=clients", "--limit=1", "--csv-safe"]
)
def test_options_for_rows_do_not_go_with_a_graph(command: tuple[str, ...], option: str) -> None:
    done = run(*command, option, CORE)
    name = option.partition("=")[0]
    text = f"nats-dissect: {name} does not go with a graph, which has no rows\n"
    assert (done.exit_code, done.stderr) == (2, text)


def test_a_graph_has_no_other_format_and_says_if_it_is_empty() -> None:
    done = run("servers", "--graph", "--format", "csv", CORE)
    assert done.exit_code == 2 and "--format csv does not go with a graph" in done.stderr
    done = run("servers", "--graph", "--where", "cluster = 'x'", CORE)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no row of servers matches --where in " in done.stderr


def test_one_session_and_one_message_are_not_filtered_or_sorted() -> None:
    for option in (("--sort", "kind"), ("--where", "kind = 'client'")):
        done = run("sessions", "--session", "ad29", *option, CORE)
        assert done.exit_code == 2
        assert f"{option[0]} does not go with --session" in done.stderr
    done = run("paths", "--message", "ad29:3", "--format", "jsonl", CORE)
    assert done.exit_code == 2 and "--format jsonl does not go with --message" in done.stderr


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("sessions", "--session", "ad29", CORE), ("--limit", "1")),
        (("sessions", "--session", "ad29", CORE), ("--jobs", "2")),
        (("paths", "--message", "ad29:3", CORE), ("--jobs", "2")),
        (("servers", "--graph", CORE), ("--jobs", "2")),
        (("frames", CORE), ("--csv-safe",)),
        (("follow", "ad29", CORE), ("--csv-safe",)),
        (("sql", "SELECT 1", CORE, "--format", "jsonl"), ("--csv-safe",)),
        (("top", "--once", CORE), ("--interval", "2")),
        (("report", "--tables", ".", "-o", "page.html"), ("--from", "1")),
        (("report", "--tables", ".", "-o", "page.html"), ("--kind", "client")),
        (("report", "--tables", ".", "-o", "page.html"), ("--no-redact",)),
        (("report", "--tables", ".", "-o", "page.html"), ("--jobs", "2")),
        (("audit", "--tables", "."), ("--keylog", "secrets")),
        (("audit", "--tables", "."), ("--port", "4222=client")),
        (("audit", "--tables", ".", "--master", "local"), ("--max-expanded", "1G")),
        (("audit", CORE), ("--csv-safe",)),
        (("audit", CORE, "--format", "sarif"), ("--columns", "rule")),
        (("audit", "--list"), ("--limit", "1")),
        (("audit", "--list"), ("--sort", "rule")),
        (("audit", "--list"), ("--explain", "wildcard")),
        (("audit", "--list"), ("--fail-on", "low")),
        (("audit", "--explain", "nobody"), ("--columns", "rule")),
        (("audit", "--explain", "nobody"), ("--suppress", "known.yml")),
        (("audit", "--explain", "nobody"), ("--until", "5")),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(
    command: tuple[str, ...], option: tuple[str, ...]
) -> None:
    done = run(*command, *option)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"nats-dissect: {option[0]} does not go with ")
    assert done.stderr.count("\n") == 1


def test_rules_are_shown_without_captures() -> None:
    done = run("audit", "--list", CORE)
    assert done.exit_code == 2
    assert done.stderr == "nats-dissect: --list shows rules and reads no capture: name none\n"


def test_the_files_of_info_in_the_order_of_a_fact(tmp_path: Path) -> None:
    names = ("core-2.15.1.pcap", "bulk-2.15.1.pcap", "http.pcap", "damaged-loss-reorder.pcap")
    paths = [str(CAPTURES / name) for name in names]
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(CORE).read_bytes()[:5000])

    def files(*args: str) -> list[dict[str, object]]:
        done = run("info", *paths, str(cut), "--format", "jsonl", *args)
        assert done.exit_code == 3
        return [json.loads(line) for line in done.stdout.splitlines()]

    packets = [row["packets"] for row in files("--sort", "packets:desc")[:-1]]
    assert packets == sorted([row["packets"] for row in files()[:-1]], reverse=True)
    for sort in ("damage", "damage:desc"):  # only one has it
        assert files("--sort", sort)[0]["file"] == str(cut)
    done = run("info", CORE, "--sort", "snaplens")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "nats-dissect: --sort: a file has no column 'snaplens' to sort by"
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("slice", "packets keep their order"),
        ("split", "packets keep their order"),
        ("report", "a click on a heading of the page sorts its table"),
    ],
)
def test_what_has_no_rows_says_why_it_has_no_order(command: str, reason: str) -> None:
    done = run(command, "-o", "out", "--sort", "packets", CORE)
    assert done.exit_code == 2 and done.stderr == f"nats-dissect: --sort: {reason}\n"
    assert "--sort" not in run(command, "--help-all").stdout


@pytest.mark.parametrize("name", ["timelines", "records", "_packets"])
def test_an_interrupt_of_a_slice(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(captures_slice, name, interrupt)
    done = run("slice", "-o", str(tmp_path / "out.pcap"), CORE)
    assert (done.exit_code, done.stderr) == (130, "") and not list(tmp_path.iterdir())
