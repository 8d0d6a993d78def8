"""Addresses in networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.audit.sql.addresses import in_network
from dissect.nats.audit.sql.dialect import Dialect, literal

from tests.support.requirements import missing

try:
    import duckdb
except ImportError as lack:
    missing("duckdb", str(lack))

IsIn = Callable[[str, str], bool]


@pytest.fixture(scope="module")
def is_in() -> Iterator[IsIn]:
    """Whether the address in a text is in a network, as DuckDB says."""
    with duckdb.connect(config={"threads": "1"}) as connection:

        def check(text: str, network: str) -> bool:
            condition = in_network(literal(text), ip_network(network), Dialect.DUCKDB)
            (answer,) = connection.execute(f"SELECT coalesce({condition}, FALSE)").fetchall()
            return bool(answer[0])

        yield check


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_ipv4_addresses_are_in_the_networks_that_python_says(
    is_in: IsIn, address: object, bits: int
) -> None:
    network = ip_network(f"10.1.2.3/{bits}", strict=False)
    assert is_in(f"{address}:4222", str(network)) == (ip_address(str(address)) in network)


@given(
    st.one_of(st.ip_addresses(v=6), st.integers(0, 1 << 20).map(lambda low: ip_address(low << 64))),
    st.integers(0, 128),
)
def test_ipv6_addresses_are_in_the_networks_that_python_says(
    is_in: IsIn, address: object, bits: int
) -> None:
    network = ip_network(f"2001:db8::7/{bits}", strict=False)
    if "." not in str(address):  # IPv4 in IPv6, as newer Pythons write it
        assert is_in(f"[{address}]:4222", str(network)) == (ip_address(str(address)) in network)


@pytest.mark.parametrize("text", ["::1", "fd00::", "::", "1:2:3:4:5:6:7:8", "1::3:4:5:6:7:8"])
def test_every_form_of_ipv6(is_in: IsIn, text: str) -> None:
    assert is_in(text, f"{text}/128")
    assert is_in(f"[{text}]:4222", f"{text}/128")
    assert not is_in(text, "fe80::/10")


@pytest.mark.parametrize("text", ["", "host:4222", "a.b.c.d:1", ":" * 300, "unknown"])
def test_what_is_no_address_is_in_no_network(is_in: IsIn, text: str) -> None:
    assert not is_in(text, "0.0.0.0/0")
    assert not is_in(text, "fe80::/10")


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("network", ["10.0.0.0/8", "::1/128"])
def test_the_address_is_calculated_once(dialect: Dialect, network: str) -> None:
    assert in_network("r.originator", ip_network(network), dialect).count("r.originator") == 1
