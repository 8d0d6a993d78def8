"""HTTP in place of a WebSocket: a redirect, an error, or plain HTTP on a port with TLS.

Such a connection carries no NATS. The layer only notes the reason and the facts in the request; its bytes are
opaque.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...schema.anomalies import Anomaly
from ...schema.records import Value
from ...secrets.redact import NO_SECRETS, Secrets
from ...types import Direction, Gap, Item, Oddity
from ..layer import Begins, Heads, Layer, LayerColumn, LayerOptions, Transform
from ..plaintext import Plaintext
from .http_upgrade import (
    HEAD_BYTES,
    HEAD_END,
    SWITCHING,
    UPGRADE,
    is_refusal,
    refusal_text,
    request_facts,
    request_secrets,
)


@dataclass(slots=True)
class _RefusedRequest:
    """What both directions know of the request: the secrets that its answer may repeat."""

    secrets: Secrets = NO_SECRETS


class RefusalTransform:
    """Reads the head of the request or response in one direction, and is then opaque."""

    done = False

    def __init__(self, direction: Direction, request: _RefusedRequest) -> None:
        self._request = request
        self.opaque = False
        self.facts: Mapping[str, Value] = {}
        self._direction = direction
        self._plain = Plaintext()
        self.counts = self._plain.counts
        self._held = b""

    def feed(self, item: Item) -> list[Item]:
        """Returns a note of the refusal, when its head is complete."""
        if isinstance(item, Oddity):
            return [item]
        self._plain.take(item)
        if isinstance(item, Gap):
            self.opaque = True
            self._plain.lose(item.length)
            return self._plain.hand_on()
        self._plain.hide(len(item.data))
        self._held += item.data
        if HEAD_END in self._held or len(self._held) > HEAD_BYTES:
            self.opaque = True
            if self._direction is Direction.ORIGINATOR:
                self.facts = request_facts(self._held)
                self._request.secrets = request_secrets(self._held)
            else:
                text = refusal_text(self._held, self._request.secrets)
                self._plain.note(Anomaly.WEBSOCKET_REFUSED, text)
            self._held = b""
        return self._plain.hand_on()

    def resume(self) -> list[Item]:
        """Returns nothing: neither direction waits for the other."""
        return []

    def finish(self) -> list[Item]:
        """Returns nothing: no plaintext remains."""
        return []


def _begins(heads: Heads) -> Begins:
    request, response = heads.originator, heads.responder
    if HEAD_END in response or heads.final or len(response) >= HEAD_BYTES:
        return Begins.YES if is_refusal(request, response) else Begins.NO
    refuses = response.startswith(b"HTTP/1.") and not response.startswith(
        SWITCHING[: len(response)]
    )
    return Begins.MAYBE if refuses and UPGRADE.search(request) else Begins.NO


def _transforms(options: LayerOptions) -> Mapping[Direction, Transform]:
    request = _RefusedRequest()
    return {direction: RefusalTransform(direction, request) for direction in Direction}


LAYER = Layer("http", LayerColumn.NONE, _begins, transforms=_transforms)
