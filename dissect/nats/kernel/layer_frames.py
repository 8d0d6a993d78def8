"""Frames that the kernel notes for layers -> the records that layers read, as `FrameRows.for_layers` makes
them of frames. The kernel has read their lines, and notes only messages of clients in this way."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.frame_rows import add_headers, kind_name
from ..schema.declaration import LayerFrame
from ..schema.records import text_of
from ..secrets.redact import NOT_MASKED, Secrets
from . import state
from .handover import OPERATIONS, Owned
from .state import Op

_OPS = [kind.op for kind in OPERATIONS]
_LINE_END = 2


def layer_frame(
    owned: Owned, event: Sequence[int], text: bytes, begun: tuple[int, str], secrets: Secrets
) -> LayerFrame:
    """The record of a message, whose line, headers and payload are in `text`. `begun` has the number and the
    capture of the packet in which it begins."""
    op, at, size = event[state.E_OP], event[state.E_TEXT], event[state.E_SIZE]
    body, header_bytes = at + event[state.E_LINE], event[state.E_HEADERS]
    words = text[at:body].split(b" ")
    is_delivery = op in (Op.MSG, Op.HMSG)
    reply = text[at + event[state.E_REPLY] : at + event[state.E_REPLY_END]]
    stream = owned.ways[event[state.E_WAY] & 1].stream
    assert stream
    row = LayerFrame(
        session=owned.flow.id,
        number=event[state.E_NUMBER],
        ts_ns=event[state.E_TIME],
        packet=begun[0],
        capture=begun[1],
        sender=stream.direction.value,
        kind=kind_name(owned.connection.framing.kind),
        op=_OPS[op],
        subject=text_of(words[1]),
        reply=text_of(reply) or None,
        sid=text_of(words[2]) if is_delivery else None,
        header_bytes=header_bytes or None,
        payload_bytes=size - header_bytes,
        total_bytes=event[state.E_LINE] + size + _LINE_END,
        offset=event[state.E_BASE],
        content=text[body + header_bytes : body + size],
        secrets=secrets,
    )
    add_headers(row, text[body : body + header_bytes], NOT_MASKED)
    return row
