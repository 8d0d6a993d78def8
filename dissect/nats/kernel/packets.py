"""Link, IP and TCP headers, as compiled functions: whose packet it is, and whether it is plain.

They know the usual headers, those of nearly all packets; `dissect.nats.packet` knows all. A packet that they
cannot place may belong to any connection, for example to one in a tunnel.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

from .jit import Array, compiled

UNCLEAR, ELSEWHERE, TCP = range(3)
"""A packet may belong to any connection; to none that the kernel follows; or its key is known."""

# What is found out about a packet.
P_TCP, P_BODY, P_LENGTH, P_CLEAN, P_ADDRESSES, P_WIDTH = range(6)
"""Where the TCP header begins; where its payload does, and the size that the IP header announces; whether it
is whole, in the usual wrapping and with few options; and where the addresses begin, which end where the TCP
header begins."""

_IPV4, _IPV6, _ARP, _LLDP = 0x0800, 0x86DD, 0x0806, 0x88CC
_VLAN, _QINQ, _OLD_QINQ = 0x8100, 0x88A8, 0x9100
_FIVE_WORDS, _PROTO_TCP, _PROTO_UDP = 0x45, 6, 17
_ICMP, _IGMP, _ICMPV6 = 1, 2, 58
_VXLAN, _OLD_VXLAN, _GENEVE, _GTP = 4789, 8472, 6081, 2152
_IPV6_MARK = np.uint64(1 << 32)
_HEADER, _MOST_HEADER = 20, 32  # of TCP: without options, with time stamps
_SYN = 2
_CRC = np.array([crc32(bytes([byte ^ 0xFF])) ^ 0xFF000000 for byte in range(256)])  # of a byte
_ONES = 0xFFFFFFFF


@compiled
def _two(text: Array, at: int) -> int:
    return (int(text[at]) << 8) | int(text[at + 1])


@compiled
def four(text: Array, at: int) -> int:
    """A number of four bytes, the most significant one first."""
    return (_two(text, at) << 16) | _two(text, at + 2)


@compiled
def _words(text: Array, at: int, key: Array, first: int, words: int) -> None:
    """Copies `words` numbers of eight bytes into a key."""
    for index in range(words):
        high, low = four(text, at + 8 * index), four(text, at + 8 * index + 4)
        key[first + index] = (np.uint64(high) << np.uint64(32)) | np.uint64(low)


@compiled
def _find_tcp(text: Array, at: int, total: int, end: int, stop: int, found: Array) -> bool:
    """Notes the TCP header at `at`, in a packet that ends at `stop`, of which the bytes up to `end` were
    captured. Returns False if the header is not whole."""
    if at + _HEADER > end:
        return False
    size = (int(text[at + 12]) >> 2) & 60
    found[P_TCP], found[P_BODY] = at, at + size
    found[P_LENGTH] = stop - at - size
    usual = total and _HEADER <= size <= _MOST_HEADER and found[P_LENGTH] >= 0
    found[P_CLEAN] = 1 if usual and stop <= end else 0
    return True


@compiled
def is_right(text: Array, found: Array) -> bool:
    """Whether the checksum of a whole TCP packet is right, as in `tcp.checksum`."""
    at, stop = found[P_ADDRESSES], found[P_BODY] + found[P_LENGTH]
    total = _PROTO_TCP + stop - found[P_TCP]
    while at + 4 <= stop:
        total += four(text, at)
        at += 4
    for shift in range(24, 24 - 8 * (stop - at), -8):
        total += int(text[at]) << shift
        at += 1
    return bool(total % 0xFFFF == 0)


@compiled
def _crc(text: Array, at: int, size: int, value: int) -> int:
    """Takes bytes into a CRC-32, which begins and ends as its complement."""
    for index in range(at, at + size):
        value = _CRC[(value ^ int(text[index])) & 0xFF] ^ (value >> 8)
    return value


@compiled
def in_share(text: Array, found: Array, share: Array) -> bool:
    """Whether the flow of a TCP packet is in a share, which has a 1 for each of its buckets; true for packets
    that the parser does not judge by their flow alone."""
    tcp, at = found[P_TCP], found[P_ADDRESSES]
    if not found[P_CLEAN] or text[tcp + 13] & _SYN:
        return True
    size, source = (tcp - at) // 2, 0
    for index in range(size + 2):
        first = at + index if index < size else tcp + index - size
        one, other = text[first], text[first + (size if index < size else 2)]
        if one != other:
            source = 1 if one > other else 0
            break
    target = 1 - source
    value = _crc(text, at + source * size, size, _ONES)
    value = _crc(text, tcp + 2 * source, 2, value)
    value = _crc(text, at + target * size, size, value)
    return bool(share[(_crc(text, tcp + 2 * target, 2, value) ^ _ONES) % len(share)])


@compiled
def _is_carrier(text: Array, at: int, end: int) -> bool:
    """Whether the UDP datagram at `at` may carry another packet."""
    if at + 4 > end:
        return True
    port = _two(text, at + 2)
    return port == _VXLAN or port == _OLD_VXLAN or port == _GENEVE or port == _GTP


@compiled
def _place_ipv4(text: Array, at: int, end: int, key: Array, found: Array) -> int:
    if at + 20 > end or text[at] != _FIVE_WORDS or _two(text, at + 6) & 0x3FFF:
        return UNCLEAR
    proto, total = text[at + 9], _two(text, at + 2)
    if proto == _PROTO_TCP:
        found[P_ADDRESSES] = at + 12
        if not _find_tcp(text, at + 20, total, end, at + total, found):
            return UNCLEAR
        _words(text, at + 12, key, 0, 1)
        key[1] = key[2] = key[3] = np.uint64(0)
        key[4] = np.uint64(four(text, at + 20))
        return TCP
    if proto == _PROTO_UDP:
        return UNCLEAR if _is_carrier(text, at + 20, end) else ELSEWHERE
    return ELSEWHERE if proto == _ICMP or proto == _IGMP else UNCLEAR


@compiled
def _place_ipv6(text: Array, at: int, end: int, key: Array, found: Array) -> int:
    if at + 40 > end or int(text[at]) >> 4 != 6:
        return UNCLEAR
    proto, size = text[at + 6], _two(text, at + 4)
    if proto == _PROTO_TCP:
        found[P_ADDRESSES] = at + 8
        if not _find_tcp(text, at + 40, size, end, at + 40 + size, found):
            return UNCLEAR
        _words(text, at + 8, key, 0, 4)
        key[4] = np.uint64(four(text, at + 40)) | _IPV6_MARK
        return TCP
    if proto == _PROTO_UDP:
        return UNCLEAR if _is_carrier(text, at + 40, end) else ELSEWHERE
    return ELSEWHERE if proto == _ICMPV6 else UNCLEAR


@compiled
def _is_family(text: Array, at: int) -> bool:
    """Whether an address family of IP is at `at`, in either byte order."""
    number = four(text, at)
    if number > 0xFF:
        if number & 0xFFFFFF:
            return False
        number >>= 24
    return number == 2 or number == 10 or number == 24 or number == 28 or number == 30


@compiled
def place(
    text: Array, start: int, end: int, type_at: int, ip_at: int, key: Array, found: Array
) -> int:
    """Places the packet `text[start:end]`, and notes its key and its TCP header. `type_at` is where its
    EtherType is, `ip_at` where the IP header begins after it."""
    at = start + ip_at
    if ip_at < 0 or at >= end:
        return UNCLEAR
    if type_at < 0:
        if ip_at and not _is_family(text, start):
            return UNCLEAR
        kind = _IPV6 if int(text[at]) >> 4 == 6 else _IPV4
    else:
        if at + 2 > end:
            return UNCLEAR
        kind = _two(text, start + type_at)
        while (kind == _VLAN or kind == _QINQ or kind == _OLD_QINQ) and at + 6 <= end:
            kind = _two(text, at + 2)
            at += 4
    if kind == _IPV4:
        return _place_ipv4(text, at, end, key, found)
    if kind == _IPV6:
        return _place_ipv6(text, at, end, key, found)
    return ELSEWHERE if kind == _ARP or kind == _LLDP else UNCLEAR
