"""What a session has to know of header blocks: whether they are any, and their status. Most are well
formed, and those are not taken apart."""

from __future__ import annotations

import re

from natsync.protocol import HMsg, ProtocolError, parse_headers

_WELL_FORMED = re.compile(
    rb"NATS/1\.0(?: [0-9]{3}(?: [^\r\n]*)?)?\r\n(?:[^:\r\n \t][^:\r\n]*:[^\r\n]*\r\n)*\r\n"
)


def flaw_of(block: bytes) -> str:
    """Why `block` is no header block; empty if it is one."""
    if _WELL_FORMED.fullmatch(block):
        return ""
    try:
        parse_headers(block)
    except ProtocolError as error:
        return error.reason
    return ""


def status_of(message: HMsg) -> int:
    """The inline status; 0 where there is none, and where the block cannot be read."""
    try:
        return parse_headers(message.headers).status
    except ProtocolError:
        return 0
