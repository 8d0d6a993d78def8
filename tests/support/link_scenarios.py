"""Captures of servers that talk to each other: routes, gateways, leafnodes."""

from __future__ import annotations

from tests.support.servers import NatsServer, Which, version_text
from tests.support.stage import Stage
from tests.support.wire import Received, Wire

ACCOUNTS = """
accounts {
    SHOP: { users: [ { user: shop, password: s3cret } ] }
    BANK: { users: [ { user: bank, password: m0ney } ] }
    SYS: { users: [ { user: sys, password: 0verseer } ] }
}
"""
SHOP = ("shop", "s3cret")
BANK = ("bank", "m0ney")


def wait_parsed(server: NatsServer, kind: str, line: str, times: int = 1) -> None:
    """Waits until the server has parsed this line on a link of that kind, so many times in all."""
    server.wait_log(rf"(?s)(?:{kind}id(?:_ws)?:\d+ [^\n]*<<- \[{line}\].*?){{{times}}}")


def cluster(stage: Stage, which: Which) -> None:
    """Three servers from their start, two accounts, queue groups across, weights, requests."""
    version = version_text(which)
    pinned = "" if which == "old" else "accounts: [BANK],"
    with stage.capturing(f"cluster-{version}.pcap"):
        servers = []
        for number in (1, 2, 3):
            routes = "" if number == 1 else '"nats://127.0.0.1:6221"'
            section = f"cluster {{ name: shops, listen: 127.0.0.1:622{number}, {pinned}"
            section += f" routes: [{routes}] }}\n"
            servers.append(
                stage.server(
                    section + ACCOUNTS, which=which, name=f"shop-{number}", port=4220 + number
                )
            )
        meshed(servers, 1 if which == "old" else 5)
        shops = [
            stage.client(server, f"till-{number}", login=SHOP)
            for number, server in enumerate(servers, 1)
        ]
        across_routes(servers, shops)
        queues_and_weights(servers, shops)
        pinned_account(stage, servers)
        for client in shops:
            client.flush()
            client.close()
        wait_parsed(servers[0], "r", r"RS- SHOP orders\.\*", 2)


def meshed(servers: list[NatsServer], links: int) -> None:
    """Wait until every pair of servers has all its route connections and PINGs have begun."""
    for server in servers:
        server.wait_log(rf"(?s)(?:Registering remote route [^\n]*\n.*?){{{links * 2}}}")
        server.wait_log(r"(?s)(?:rid:\d+ [^\n]*->> \[PING\].*?){2}")


def across_routes(servers: list[NatsServer], shops: list[Wire]) -> None:
    """Messages, headers and a request from the first server to the two others."""
    for client in shops[1:]:
        client.sub("orders.*")
        client.flush()
    wait_parsed(servers[0], "r", r"RS\+ SHOP orders\.\*", 2)
    shops[0].pub("orders.new", b"tea")
    shops[0].pub(
        "orders.new", b"coffee", headers=[("Priority", "high"), ("Via", "a"), ("Via", "b")]
    )
    shops[0].pub("orders.empty")
    for client in shops[1:]:
        client.expect("HMSG", "orders.new")
        client.expect("MSG", "orders.empty")
    shops[0].sub("_INBOX.t1.*")
    shops[0].flush()
    wait_parsed(servers[1], "r", r"RS\+ SHOP _INBOX\.t1\.\*")
    shops[0].pub("orders.count", b"?", reply="_INBOX.t1.1")
    shops[1].respond(b"2", "orders.count")
    shops[0].expect("MSG", "_INBOX.t1.1")
    shops[0].pub("orders.nobody", b"?", reply="_INBOX.t1.2")
    shops[2].expect("MSG", "orders.nobody")
    shops[0].pub("void", b"?", reply="_INBOX.t1.3")
    shops[0].expect("HMSG", "_INBOX.t1.3")


def queues_and_weights(servers: list[NatsServer], shops: list[Wire]) -> None:
    """Two groups on one subject; a second member raises the weight, its end lowers it."""
    one, two, three = shops
    first = two.sub("jobs", queue="packers")
    two.flush()
    wait_parsed(servers[0], "r", r"RS\+ SHOP jobs packers 1")
    second = two.sub("jobs", queue="packers")
    two.flush()
    wait_parsed(servers[0], "r", r"RS\+ SHOP jobs packers 2")
    three.sub("jobs", queue="auditors")
    three.sub("jobs")
    three.flush()
    wait_parsed(servers[0], "r", r"RS\+ SHOP jobs auditors 1")
    wait_parsed(servers[0], "r", r"RS\+ SHOP jobs")
    for number in range(4):
        one.pub("jobs", b"%d" % number)
    one.pub("jobs", b"reply wanted", reply="_INBOX.t1.4")
    one.pub("jobs", b"with headers", headers=[("Size", "XL")], reply="_INBOX.t1.5")
    one.pub("jobs", b"with headers, no reply", headers=[("Size", "S")])
    for _ in range(2):  # as plain subscriber and as auditor
        three.expect("HMSG", "jobs")
        three.expect("HMSG", "jobs")
    for _ in range(2):
        two.expect("HMSG", "jobs")
    two.unsub(first)
    two.flush()
    wait_parsed(servers[0], "r", r"RS\+ SHOP jobs packers 1", 2)
    two.unsub(second)
    two.flush()
    wait_parsed(servers[0], "r", r"RS- SHOP jobs packers")


def pinned_account(stage: Stage, servers: list[NatsServer]) -> None:
    """The account BANK: on a dedicated route, without the account on the wire, since 2.10."""
    clerk = stage.client(servers[1], "clerk", login=BANK)
    customer = stage.client(servers[2], "customer", login=BANK)
    clerk.sub("transfer.*", queue="clerks")
    clerk.sub("balance")
    clerk.flush()
    wait_parsed(servers[2], "r", r"RS\+ (?:BANK )?transfer\.\* clerks 1")
    wait_parsed(servers[2], "r", r"RS\+ (?:BANK )?balance")
    customer.sub("_INBOX.c.>")
    customer.flush()
    wait_parsed(servers[1], "r", r"RS\+ (?:BANK )?_INBOX\.c\.>")
    customer.pub("balance", b"?", reply="_INBOX.c.1")
    clerk.respond(b"100", "balance", headers=[("Currency", "EUR")])
    customer.expect("HMSG", "_INBOX.c.1")
    customer.pub("transfer.out", b"10")
    customer.pub("transfer.out", b"20", reply="_INBOX.c.2", headers=[("Urgent", "yes")])
    answer = clerk.expect("HMSG", "transfer.out")
    clerk.pub(answer.reply, b"done")
    customer.expect("MSG", "_INBOX.c.2")
    clerk.close()
    wait_parsed(servers[2], "r", r"RS- (?:BANK )?balance")
    customer.close()


def gateway(stage: Stage, which: Which) -> None:
    """Two clusters of one server each, interest in both directions, a request across."""
    version = version_text(which)
    with stage.capturing(f"gateway-{version}.pcap"):
        remotes = ", ".join(
            f'{{ name: {name}, urls: ["nats://127.0.0.1:{port}"] }}'
            for name, port in (("east", 7221), ("west", 7222))
        )
        servers = []
        for number, name in enumerate(("east", "west"), 1):
            section = f"gateway {{ name: {name}, listen: 127.0.0.1:722{number},"
            section += f" gateways: [ {remotes} ] }}\nsystem_account: SYS\n"
            server = stage.server(
                section + ACCOUNTS, which=which, name=f"{name}-1", port=4220 + number
            )
            servers.append(server)
        for server in servers:
            server.wait_log(r"Inbound gateway connection [^\n]*registered")
            server.wait_log(r"Outbound gateway connection [^\n]*registered")
            server.wait_log(r"(?s)(?:gid:\d+ [^\n]*->> \[PING\].*?){2}")
        east = stage.client(servers[0], "east's desk", login=SHOP)
        west = stage.client(servers[1], "west's desk", login=SHOP)
        across_gateways(servers, east, west)
        # Nobody in the west is interested: nothing crosses, for these servers are interest-only.
        bank = stage.client(servers[0], "east's bank", login=BANK)
        bank.pub("rates", b"1.08")
        for client in (bank, east, west):
            client.flush()
            client.close()


def across_gateways(servers: list[NatsServer], east: Wire, west: Wire) -> None:
    """Interest first, then messages, a queue group, requests both ways, and interest lost."""
    west.sub("orders.*")
    west.sub("jobs", queue="packers")
    west.flush()
    wait_parsed(servers[0], "g", r"RS\+ SHOP orders\.\*")
    wait_parsed(servers[0], "g", r"RS\+ SHOP jobs packers 1")
    east.pub("orders.new", b"tea")
    east.pub("orders.new", b"coffee", headers=[("Priority", "high")])
    east.pub("jobs", b"pack")
    east.pub("nobody.cares", b"stays in the east")
    west.expect("HMSG", "orders.new")
    west.expect("MSG", "jobs")
    east.sub("_INBOX.east.*")
    east.pub("orders.count", b"?", reply="_INBOX.east.1")
    west.respond(b"2", "orders.count")
    east.expect("MSG", "_INBOX.east.1")
    east.pub("jobs", b"pack and tell", reply="_INBOX.east.2", headers=[("Size", "XL")])
    request = west.expect("HMSG", "jobs")
    west.pub(request.reply, b"packed", headers=[("Boxes", "1")])
    east.expect("HMSG", "_INBOX.east.2")
    served = east.sub("price")
    east.flush()
    wait_parsed(servers[1], "g", r"RS\+ SHOP price")
    west.sub("_INBOX.west.*")
    west.pub("price", b"17", reply="_INBOX.west.1")
    east.respond(b"2.40", "price")
    west.expect("MSG", "_INBOX.west.1")
    east.unsub(served)
    east.flush()
    wait_parsed(servers[1], "g", "RS- SHOP price")


def leafnode(stage: Stage, which: Which) -> None:
    """A hub and a spoke, compression off, on a port that is not the default."""
    with stage.capturing(f"leafnode-{version_text(which)}.pcap"):
        off = "" if which == "old" else "compression: off"
        across_leaf(stage, *leaf_pair(stage, which, 17422, off))


def leafnode_s2(stage: Stage) -> None:
    """The same with the compression that two current servers agree on when nobody says anything."""
    with stage.capturing(f"leafnode-s2-{version_text('current')}.pcap"):
        across_leaf(stage, *leaf_pair(stage, "current", 7422, ""))


def leafcluster(stage: Stage, which: Which) -> None:
    """A spoke behind one of two clustered hubs: routes that carry its origin, LS+, LS- and LMSG."""
    with stage.capturing(f"leafcluster-{version_text(which)}.pcap"):
        off = "" if which == "old" else "compression: off"
        route = "cluster { name: hubs, listen: 127.0.0.1:6221 }\n"
        hub, spoke = leaf_pair(stage, which, 7422, off, route)
        route = (
            'cluster { name: hubs, listen: 127.0.0.1:6222, routes: ["nats://127.0.0.1:6221"] }\n'
        )
        second = stage.server(route + ACCOUNTS, which=which, name="hub-2", port=4224)
        second.wait_log(r"rid:\d+ [^\n]*Registering remote route")
        head = stage.client(second, "head office", login=SHOP)
        branch = stage.client(spoke, "branch")
        head.sub("sales.*")
        head.sub("help", queue="desk")
        sid = branch.sub("orders.*")
        branch.sub("jobs", queue="packers")
        head.flush()
        branch.flush()
        wait_parsed(spoke, "l", r"LS\+ help desk 1")
        wait_parsed(spoke, "l", r"LS\+ sales\.\*")
        wait_parsed(second, "r", r"LS\+ spoke SHOP orders\.\*")
        wait_parsed(second, "r", r"LS\+ spoke SHOP jobs packers 1")
        head.pub("orders.new", b"tea", headers=[("Priority", "high")])
        head.pub("jobs", b"pack")
        branch.expect("MSG", "jobs")
        branch.pub("sales.tea", b"2.40")
        branch.pub("sales.tea", b"2.40", headers=[("Currency", "EUR")])
        head.expect("HMSG", "sales.tea")
        branch.sub("_INBOX.branch")
        branch.flush()
        wait_parsed(second, "r", r"LS\+ spoke SHOP _INBOX\.branch")
        branch.pub("help", b"!", reply="_INBOX.branch")
        head.respond(b"coming", "help")
        branch.expect("MSG", "_INBOX.branch")
        branch.unsub(sid)
        branch.flush()
        wait_parsed(second, "r", r"LS- (?:spoke)? ?SHOP orders\.\*")
        branch.close()
        wait_parsed(second, "r", r"LS- (?:spoke)? ?SHOP jobs packers")
        head.close()
        wait_parsed(spoke, "l", r"LS- sales\.\*")


def leaf_pair(
    stage: Stage, which: Which, port: int, compression: str, more: str = ""
) -> tuple[NatsServer, NatsServer]:
    """Two linked servers; the spoke's local users are bound to the hub's account SHOP."""
    listen = f"leafnodes {{ listen: 127.0.0.1:{port}, {compression} }}\n"
    hub = stage.server(listen + more + ACCOUNTS, which=which, name="hub", port=4222)
    url = f"nats-leaf://shop:s3cret@127.0.0.1:{port}"
    remote = f'leafnodes {{ remotes: [ {{ url: "{url}", {compression} }} ] }}\n'
    spoke = stage.server(remote, which=which, name="spoke", port=4223)
    for server in (hub, spoke):
        server.wait_log(r"lid:\d+ ")
    return hub, spoke


def across_leaf(stage: Stage, hub: NatsServer, spoke: NatsServer) -> None:
    """Messages both ways, headers, a queue group and requests; the ends of subscriptions."""
    head = stage.client(hub, "head office", login=SHOP)
    branch = stage.client(spoke, "branch")
    sid = branch.sub("orders.*")
    branch.sub("jobs", queue="packers")
    branch.sub("jobs")
    branch.flush()
    wait_parsed(hub, "l", r"LS\+ orders\.\*")
    wait_parsed(hub, "l", r"LS\+ jobs packers 1")
    head.pub("orders.new", b"tea")
    head.pub("orders.new", b"coffee", headers=[("Priority", "high"), ("Via", "a"), ("Via", "b")])
    head.pub("jobs", b"pack")
    head.pub("jobs", b"pack with care", headers=[("Fragile", "yes")])
    branch.expect("HMSG", "orders.new")
    for _ in range(2):
        branch.expect("HMSG", "jobs")
    head.sub("_INBOX.head.*")
    head.sub("sales.>")
    head.sub("help", queue="desk")
    head.flush()
    wait_parsed(spoke, "l", r"LS\+ sales\.>")
    wait_parsed(spoke, "l", r"LS\+ _INBOX\.head\.\*")
    wait_parsed(spoke, "l", r"LS\+ help desk 1")
    head.pub("orders.count", b"?", reply="_INBOX.head.1")
    branch.respond(b"2", "orders.count")
    head.expect("MSG", "_INBOX.head.1")
    branch.pub("sales.tea.green", b"2.40")
    branch.pub("sales.none")
    head.expect("MSG", "sales.none")
    branch.sub("_INBOX.branch")
    branch.flush()
    wait_parsed(hub, "l", r"LS\+ _INBOX\.branch")
    branch.pub("help", b"!", reply="_INBOX.branch", headers=[("Floor", "2")])
    request: Received = head.expect("HMSG", "help")
    head.pub(request.reply, b"coming", headers=[("Eta", "5m")])
    branch.expect("HMSG", "_INBOX.branch")
    branch.unsub(sid)
    branch.flush()
    wait_parsed(hub, "l", r"LS- orders\.\*")
    spoke.wait_log(r"lid(?:_ws)?:\d+ [^\n]*->> \[PING\]")
    spoke.wait_log(r"lid(?:_ws)?:\d+ [^\n]*<<- \[PONG\]")
    head.close()
    wait_parsed(spoke, "l", r"LS- sales\.>")
    branch.close()
    wait_parsed(hub, "l", r"LS- [^\]\n]+", 4)
