"""SQL that tells whether an address is in a network (CIDR).

The text is an address, with or without a port, as in the tables: `10.0.0.7:4222`, `[fd00::1]:4222`. An IPv4
address is compared as a number, an IPv6 address by its hexadecimal digits. Other texts are in no network.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from .dialect import Dialect, both

_GROUPS = 8  # of an IPv6 address
_BITS = 16  # of a group
_DIGITS = 4  # of a group, hexadecimal


def in_network(text: str, network: IPv4Network | IPv6Network, dialect: Dialect) -> str:
    """Whether the address in `text` is in the network."""
    if isinstance(network, IPv4Network):
        return _in_ipv4(text, network, dialect)
    return _in_ipv6(text, network, dialect)


def _in_ipv4(text: str, network: IPv4Network, dialect: Dialect) -> str:
    parts = [f"try_cast(split_part(host, '.', {place}) AS BIGINT)" for place in range(1, 5)]
    number = f"((({parts[0]} * 256 + {parts[1]}) * 256 + {parts[2]}) * 256 + {parts[3]})"
    first, last = int(network.network_address), int(network.broadcast_address)
    inside = f"{number} BETWEEN {first} AND {last}"
    return dialect.holds_of(f"split_part({text}, ':', 1)", "host", inside)


def _in_ipv6(text: str, network: IPv6Network, dialect: Dialect) -> str:
    # `::` stands for the missing groups of zeros. At the start or end of an address, the empty group
    # beside it is one of them.
    missing = f"{_GROUPS} - (length(host) - length(replace(host, ':', '')))"
    whole = f"replace(host, '::', ':' || repeat('0:', {missing}))"
    # Only groups that the prefix covers: each further group makes the query slower to plan.
    groups = max(1, -(-network.prefixlen // _BITS))
    digits = " || ".join(
        f"lpad(split_part(whole, ':', {place}), {_DIGITS}, '0')" for place in range(1, groups + 1)
    )
    first, last = (
        address.exploded.replace(":", "")[: groups * _DIGITS]
        for address in (network.network_address, network.broadcast_address)
    )
    inside = dialect.holds_of(whole, "whole", f"({digits}) BETWEEN '{first}' AND '{last}'")
    host = f"translate(regexp_replace({text}, ']:[0-9]+$', ']'), '[]', '')"
    return dialect.holds_of(host, "host", both(["host LIKE '%:%:%'", inside]))
