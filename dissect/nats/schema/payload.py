"""Payloads in rows: none, a digest, text or Base64."""

from __future__ import annotations

from base64 import b64encode
from enum import Enum
from hashlib import sha256

from .records import text_of


class Payload(Enum):
    """How a row shows the payload of its message."""

    NONE = "none"
    SHA256 = "sha256"
    TEXT = "text"
    BASE64 = "base64"

    @classmethod
    def _missing_(cls, value: object) -> Payload:
        raise ValueError(f"payload must be {', '.join(each.value for each in cls)}, not {value!r}")

    def columns(self, data: bytes, is_whole: bool) -> tuple[str | None, str | None]:
        """The values of the columns `payload` and `payload_sha256`. If a payload is not whole, because the
        snap length cut it or it has gaps, the captured bytes are shown, and there is no digest."""
        if self is Payload.NONE:
            return None, None
        if self is Payload.TEXT:
            return text_of(data), None
        if self is Payload.BASE64:
            return b64encode(data).decode(), None
        shows_digest = self is Payload.SHA256 and is_whole
        return None, sha256(data).hexdigest() if shows_digest else None
