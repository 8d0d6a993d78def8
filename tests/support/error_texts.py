"""Texts of -ERR as nats-server writes them, and the kinds of connection that they leave open."""

from __future__ import annotations

from natsync.protocol import Kind

CLIENT, ROUTE, GATEWAY, LEAFNODE = Kind

OPEN_TO: dict[bytes, set[Kind]] = {
    b"Invalid Subject": {CLIENT},
    b"invalid publish subject": {CLIENT},
    b"maximum subscriptions exceeded": {CLIENT, LEAFNODE},
    b"Failed Account Registration": {CLIENT, LEAFNODE},
    b"Invalid Subscription": {LEAFNODE},
    b'Permissions Violation for Publish to "a"': {CLIENT},
    b'permissions violation for subscription to "a" using queue "q"': {CLIENT},
    b"Authorization Violation": set(),
    b"Authentication Timeout": set(),
    b"User Authentication Expired": set(),
    b"Account Authentication Expired": set(),
    b"Stale Connection": set(),
    b"Slow Consumer (Write Deadline Exceeded)": set(),
    b"Maximum Payload Violation": set(),
    b"Unknown Protocol Operation": set(),
    b"Duplicate Remote LeafNode Connection": set(),
    b"\xff": set(),
}
