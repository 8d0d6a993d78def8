"""Validity and status of header blocks. A regular expression accepts most blocks, which saves parsing
them."""

from __future__ import annotations

import re

from natsync.protocol import ProtocolError, parse_headers

_WELL_FORMED = re.compile(
    rb"NATS/1\.0(?: [0-9]{3}(?: [^\r\n]*)?)?\r\n(?:[^:\r\n \t][^:\r\n]*:[^\r\n]*\r\n)*\r\n"
)


def header_error(block: bytes) -> str:
    """The reason why `block` is not a valid header block; empty if it is valid."""
    if _WELL_FORMED.fullmatch(block):
        return ""
    try:
        parse_headers(block)
    except ProtocolError as error:
        return error.reason
    return ""


def status_of(block: bytes) -> int:
    """The inline status of a header block; 0 if there is none or the block is invalid."""
    try:
        return parse_headers(block).status
    except ProtocolError:
        return 0
