"""The HTTP request and response that begin a WebSocket: the facts in them, and why a server refuses.

RFC 6455 (4), RFC 9110, and server/websocket.go (`wsUpgrade`). Cookies and query strings may hold secrets, so
only their names are kept; addresses are shown without passwords and fragments.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import unquote_plus

from ...schema.records import Value, text_of
from ...secrets.redact import MASK, NO_SECRETS, Secrets, masked_text

HEAD_BYTES = 16 << 10  # the largest head of a request or a response
HEAD_END = b"\r\n\r\n"
SWITCHING = b"HTTP/1.1 101"
UPGRADE = re.compile(rb"\r\nUpgrade:[ \t]*websocket", re.IGNORECASE)

_REQUEST = re.compile(rb"[A-Z]{3,7} ([^ \r\n]{1,8000}) HTTP/1\.[01]\r\n")
_RESPONSE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9][^\r\n]{0,200})\r\n")
_WANTS_WEBSOCKET = re.compile(rb"\r\nSec-WebSocket-Version:", re.IGNORECASE)
_WANTS_TLS = b"Client sent an HTTP request to an HTTPS server"  # net/http of Go
_CREDENTIALS = b"Authorization", b"Proxy-Authorization"
_FRAGMENT = re.compile(r"#.*", re.DOTALL)
_MOST_BODY = 120  # characters of a refusal's body that are shown


def is_refusal(request: bytes, response: bytes) -> bool:
    """Whether a response refuses to begin a WebSocket that the request or the server asks for."""
    if not _RESPONSE.match(response) or response.startswith(SWITCHING):
        return False
    if UPGRADE.search(request) or _WANTS_TLS in response:
        return True
    return bool(_WANTS_WEBSOCKET.search(response[: response.find(HEAD_END) + 2]))


def request_secrets(head: bytes) -> Secrets:
    """The secrets in a request, which its answer may repeat."""
    return NO_SECRETS.with_texts(_secrets_of(head))


def _secrets_of(head: bytes) -> Iterator[str]:
    """The values in the query, the user information and the fragment of the URL, the values of cookies, and
    credentials; as they are, and decoded."""
    found = _REQUEST.match(head)
    url, _, fragment = (text_of(found[1]) if found else "").partition("#")
    yield fragment
    yield from url.partition("://")[2].rpartition("@")[0].split(":", 1)[-1:]
    pairs = [*url.partition("?")[2].split("&"), *text_of(header(head, b"Cookie")).split(";")]
    for pair in pairs:
        name, equals, value = pair.strip().partition("=")
        secret = value if equals else name
        yield from (secret, unquote_plus(secret), secret.strip('"'))
    for field in _CREDENTIALS:
        credentials = text_of(header(head, field))
        coded = credentials.partition(" ")[2]
        yield from (credentials, coded)
        with suppress(ValueError):
            yield text_of(b64decode(coded)).partition(":")[2]


def refusal_text(response: bytes, secrets: Secrets = NO_SECRETS) -> str:
    """The status of a refusal, and the target of its redirect or else the beginning of its body."""
    head, _, body = response.partition(HEAD_END)
    status = _RESPONSE.match(response)
    text = secrets.masked(text_of(status[1])) if status else ""
    location = secrets.masked(_address(header(head, b"Location")).partition("?")[0])
    if location:
        return f"{text}, to {location}"
    line = secrets.masked(text_of(body.strip().partition(b"\n")[0]))[:_MOST_BODY].strip()
    return f"{text}: {line}" if line else text


def request_facts(head: bytes) -> dict[str, Value]:
    """The facts in the request, by columns of `flows` and `sessions`."""
    found = _REQUEST.match(head)
    path, question, query = (_address(found[1]) if found else "").partition("?")
    return {
        "websocket_path": path + question + _masked(query, "&") or None,
        "websocket_host": _address(header(head, b"Host")) or None,
        "websocket_origin": _address(header(head, b"Origin")) or None,
        "websocket_cookies": _masked(text_of(header(head, b"Cookie")), ";") or None,
        "proxied_for": _forwarded_for(header(head, b"X-Forwarded-For")),
    }


def response_facts(head: bytes) -> dict[str, Value]:
    """The facts on which both sides agreed, by columns."""
    return {
        "websocket_protocol": text_of(header(head, b"Sec-WebSocket-Protocol")) or None,
        "websocket_extensions": text_of(header(head, b"Sec-WebSocket-Extensions")) or None,
    }


def header(head: bytes, name: bytes) -> bytes:
    """The value of a header; empty if there is none."""
    found = re.search(rb"\r\n%s:[ \t]*([^\r\n]*)" % name, head, re.IGNORECASE)
    return found[1].rstrip() if found else b""


def _address(value: bytes) -> str:
    """An address as columns show it: without a password and without its fragment, which may be a token. The
    password is removed first, because it may contain a `#` that was not escaped."""
    text = text_of(value)
    return _FRAGMENT.sub("", text if text.startswith("/") else masked_text(text))


def _masked(pairs: str, separator: str) -> str:
    """`name=value` pairs without their values."""
    names = [pair.strip().partition("=") for pair in pairs.split(separator) if pair.strip()]
    shown = [f"{name}={MASK}" if equals else MASK for name, equals, _ in names]
    return f"{separator} ".join(shown) if separator == ";" else separator.join(shown)


def _forwarded_for(value: bytes) -> str | None:
    """The address of the client, according to a proxy in front of the server. Only a single address without
    a zone counts, as on the server."""
    try:
        text = value.decode("ascii")
        ip_address(text)
    except ValueError:
        return None
    return None if "%" in text else text
