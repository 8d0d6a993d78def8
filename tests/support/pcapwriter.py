"""Captures made up for tests: headers around bytes, TCP conversations, pcap and pcapng files.

Everything is a value: a `Conversation` gives `Record`s; `pcap_file` and `pcapng_file` make files of them. All
bytes are made with `struct` alone, so that dpkt and the code under test can both be held against them.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tests.support.tcp_conversation import ACK, PSH, RST, SYN, TcpConversation

ETHERNET, NULL, RAW, LOOP, SLL, SLL2 = 1, 0, 101, 108, 113, 276
TCP, UDP, GRE = 6, 17, 47
START_NS = 1_700_000_000_123_456_000
STEP_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Record:
    """One packet of a file to be. `wire_bytes` is what it had on the wire, if that is not all of data."""

    ts_ns: int
    data: bytes
    wire_bytes: int | None = None
    interface: int = 0

    @property
    def length(self) -> int:
        return len(self.data) if self.wire_bytes is None else self.wire_bytes


def tcp(
    ports: tuple[int, int],
    seq: int,
    ack: int,
    flags: int,
    payload: bytes = b"",
    options: bytes = b"",
    window: int = 65535,
) -> bytes:
    """A TCP header and its payload; `options` in whole words; the checksum stays 0."""
    offset = (20 + len(options)) // 4 << 4
    numbers = (*ports, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, offset, flags, window, 0, 0)
    return struct.pack("!HHIIBBHHH", *numbers) + options + payload


def with_checksum(record: Record, partial: bool = False) -> Record:
    """A record of Ethernet, IP without options and TCP, with the checksum of TCP: the right one, or, if
    `partial`, that of addresses and size alone, as systems leave it to network cards."""
    data = record.data
    if data[12:14] == b"\x08\0":
        start, addresses, end = 34, data[26:34], 14 + int.from_bytes(data[16:18], "big")
    else:
        start, addresses, end = 54, data[22:54], 54 + int.from_bytes(data[18:20], "big")
    body = data[start : start + 16] + b"\0\0" + data[start + 18 : end]
    covered = addresses + struct.pack("!HH", TCP, len(body)) + (b"" if partial else body)
    covered += bytes(len(covered) & 1)
    total = sum(word for (word,) in struct.iter_unpack("!H", covered))
    while total > 0xFFFF:
        total = (total >> 16) + (total & 0xFFFF)
    checksum = struct.pack("!H", total if partial else total ^ 0xFFFF)
    at = start + 16
    return replace(record, data=data[:at] + checksum + data[at + 2 :])


def ip(
    source: str,
    target: str,
    payload: bytes,
    proto: int = TCP,
    options: bytes = b"",
    total: int | None = None,
    fragment: tuple[int, int, bool] | None = None,
) -> bytes:
    """An IPv4 or IPv6 header (as the addresses say) and its payload.

    `total` is what to write into its length field, if not the truth. `options` are IPv4 options in
    whole words, or IPv6 extension headers (the first of which `proto` then names). `fragment` is the
    datagram's number, the offset in units of 8 bytes, and whether more follow.
    """
    number, offset, more = fragment or (1, 0, False)
    a, b = _address(source), _address(target)
    body = options + payload
    if a.version == 6:
        if fragment:
            body = struct.pack("!BBHI", proto, 0, offset << 3 | more, number) + body
            proto = 44
        size = len(body) if total is None else total
        return struct.pack("!IHBB", 6 << 28, size, proto, 64) + a.packed + b.packed + body
    size = 20 + len(body) if total is None else total
    first = 0x40 | (20 + len(options)) // 4
    flags = 0x2000 * more if fragment else 0x4000
    head = struct.pack("!BBHHHBBH", first, 0, size, number, flags | offset, 64, proto, 0)
    return head + a.packed + b.packed + body


# Tests make some ten thousand packets between few addresses before the first of them runs.
_address = cache(ipaddress.ip_address)


def udp(ports: tuple[int, int], payload: bytes) -> bytes:
    """A UDP header and its payload; the checksum stays 0."""
    return struct.pack("!4H", *ports, 8 + len(payload), 0) + payload


def fragments(
    source: str, target: str, payload: bytes, size: int, proto: int = TCP, number: int = 1
) -> list[bytes]:
    """`ip`, in fragments of `size` bytes (a multiple of 8) of the payload."""
    return [
        ip(
            source,
            target,
            payload[at : at + size],
            proto,
            fragment=(number, at // 8, at + size < len(payload)),
        )
        for at in range(0, len(payload), size)
    ]


def link(packet: bytes, linktype: int = ETHERNET, vlans: Sequence[tuple[int, int]] = ()) -> bytes:
    """An IP packet in the header of its link. `vlans` are pairs of tag type and VLAN number."""
    six = packet[:1] >= b"\x60"
    ethertype = struct.pack("!H", 0x86DD if six else 0x0800)
    tags = b"".join(struct.pack("!HH", kind, number) for kind, number in vlans)
    family = 30 if six else 2
    headers = {
        ETHERNET: bytes.fromhex("020000000002 020000000001") + tags + ethertype,
        NULL: struct.pack("<I", family),
        LOOP: struct.pack(">I", family),
        SLL: struct.pack("!HHH8s", 0, 1, 6, b"\2\0\0\0\0\1") + tags + ethertype,
        SLL2: ethertype + struct.pack("!HIHBB8s", 0, 1, 1, 0, 6, b"\2\0\0\0\0\1"),
    }
    return headers.get(linktype, b"") + packet


class Conversation(TcpConversation[tuple[str, int]]):
    """A TCP conversation in packets, which its methods append to `records`.

    Each packet is `STEP_NS` after the one before. One that is sent with `skip` is missing in the capture.
    `windows` are the receive windows that each endpoint announces, `syn_options` the options of its SYN.
    """

    def __init__(
        self,
        client: tuple[str, int] = ("10.0.0.1", 40000),
        server: tuple[str, int] = ("10.0.0.2", 4222),
        linktype: int = ETHERNET,
        isn: tuple[int, int] = (1000, 5000),
        now_ns: int = START_NS,
    ) -> None:
        super().__init__(client, server, isn)
        self.linktype = linktype
        self.now_ns = now_ns
        self.windows = {client: 65535, server: 65535}
        self.syn_options = {client: b"", server: b""}
        self.records: list[Record] = []

    def emit(self, sender: tuple[str, int], flags: int, seq: int, ack: int, payload: bytes) -> None:
        other = self.other(sender)
        options = self.syn_options[sender] if flags & SYN else b""
        ports = sender[1], other[1]
        segment = tcp(ports, seq, ack, flags, payload, options, self.windows[sender])
        packet = link(ip(sender[0], other[0], segment), self.linktype)
        self.records.append(Record(self.now_ns, packet))
        self.now_ns += STEP_NS

    def say(
        self, sender: tuple[str, int], data: bytes, size: int = 1460, skip: bool = False
    ) -> Conversation:
        """`data` in packets of up to `size` bytes, then the other endpoint's acknowledgement."""
        captured = len(self.records)
        for at in range(0, len(data), size):
            self.packet(sender, PSH | ACK, data[at : at + size])
        if skip:
            del self.records[captured:]
        self.packet(self.other(sender), ACK)
        return self

    def from_client(self, data: bytes, size: int = 1460, skip: bool = False) -> Conversation:
        return self.say(self.client, data, size, skip)

    def from_server(self, data: bytes, size: int = 1460, skip: bool = False) -> Conversation:
        return self.say(self.server, data, size, skip)

    def reset(self, sender: tuple[str, int]) -> Conversation:
        self.packet(sender, RST | ACK)
        return self


def pcap_file(
    records: Iterable[Record],
    linktype: int = ETHERNET,
    order: str = "<",
    nanoseconds: bool = False,
    snaplen: int = 262144,
) -> bytes:
    """A classic pcap file."""
    magic, unit_ns = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, linktype)]
    for record in records:
        seconds, rest = divmod(record.ts_ns, 10**9)
        parts.append(
            struct.pack(order + "4I", seconds, rest // unit_ns, len(record.data), record.length)
        )
        parts.append(record.data)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Interface:
    """A pcapng interface; `tsresol` None leaves the option out, which means microseconds."""

    linktype: int = ETHERNET
    snaplen: int = 0
    tsresol: int | None = None
    tsoffset: int | None = None

    def ticks(self, ts_ns: int) -> int:
        """A time in this interface's units."""
        resolution = 6 if self.tsresol is None else self.tsresol
        units = 1 << (resolution & 127) if resolution & 128 else 10**resolution
        return (ts_ns - (self.tsoffset or 0) * 10**9) * units // 10**9


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block: the body padded to 32 bits, its length on both sides."""
    body += bytes(-len(body) % 4)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


def interface_block(interface: Interface, order: str = "<") -> bytes:
    options = b""
    if interface.tsresol is not None:
        options += option(9, bytes([interface.tsresol]), order)
    if interface.tsoffset is not None:
        options += option(14, struct.pack(order + "q", interface.tsoffset), order)
    if options:
        options += option(0, b"", order)
    return block(
        1, struct.pack(order + "HHI", interface.linktype, 0, interface.snaplen) + options, order
    )


def enhanced_packet(
    record: Record, interface: Interface, order: str = "<", options: bytes = b""
) -> bytes:
    ticks = interface.ticks(record.ts_ns)
    sizes = (len(record.data), record.length)
    head = struct.pack(order + "5I", record.interface, ticks >> 32, ticks & 0xFFFFFFFF, *sizes)
    return block(6, head + record.data + bytes(-len(record.data) % 4) + options, order)


def simple_packet(record: Record, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", record.length) + record.data, order)


def pcapng_file(
    records: Iterable[Record], interfaces: Sequence[Interface] = (Interface(),), order: str = "<"
) -> bytes:
    """A pcapng file of one section with enhanced packet blocks."""
    parts = [section(order), *(interface_block(interface, order) for interface in interfaces)]
    parts += [enhanced_packet(record, interfaces[record.interface], order) for record in records]
    return b"".join(parts)


def with_secrets(pcapng: bytes, secrets: bytes, blocks: int = 1, order: str = "<") -> bytes:
    """A pcapng file with a Decryption Secrets Block, which holds a TLS key log, after this many blocks; 0: at
    the end."""
    at = 0
    for _ in range(blocks):
        at += int.from_bytes(pcapng[at + 4 : at + 8], "little" if order == "<" else "big")
    made = block(10, struct.pack(order + "II", 0x544C534B, len(secrets)) + secrets, order)
    return pcapng[: at or None] + made + (pcapng[at:] if at else b"")
