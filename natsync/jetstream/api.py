"""Requests to the JetStream API: subjects, JSON, errors, pages, and how long to wait.

Every response is a JSON object; one with an `error` becomes the exception of its err_code (ADR-1, ADR-7).
A server whose JetStream is on answers no request that it does not know: such a request times out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from .._checks import check_text, plain
from .._json import JSONObject, decode_object
from ..core import Core
from ..errors import (
    ConnectionReconnectingError,
    InvalidResponseError,
    NoRespondersError,
    OptionError,
)
from ..message import HeadersLike, Msg
from ..options import DEFAULT, Default, wait_time
from .errors import (
    APIError,
    JetStreamNotEnabledError,
    UnsupportedError,
    api_error,
)

__all__ = ["API", "Timeout", "check_kept"]

_T = TypeVar("_T")

INVALID_JSON = 10025


Timeout = float | None | Default
"""Seconds; None waits for ever. The default is the timeout of the context."""


class API:
    """The JetStream API as one context reaches it, for any number of threads.

    `core` is the connection; `prefix` is what the subjects of the API begin with, without a
    trailing dot; `timeout`, in seconds, applies to every request without a timeout of its own.
    """

    def __init__(self, core: Core, domain: str | None, prefix: str | None, timeout: float | None):
        self.core = core
        self.prefix = _prefix(domain, prefix)
        self.is_local = domain is None and prefix is None
        """Whether the connected server also answers the requests, as far as the client can tell:
        they have neither a domain nor a prefix."""
        self.timeout = float(wait_time(timeout))  # a float is faster in each call than an int

    def subject(self, call: str) -> str:
        """The subject of a call: `STREAM.INFO.orders`."""
        return f"{self.prefix}.{call}"

    def seconds(self, timeout: Timeout) -> float:
        """Returns the seconds to wait for a call that was given `timeout`."""
        return self.timeout if timeout is DEFAULT else wait_time(timeout)

    def request(
        self,
        call: str,
        body: Mapping[str, object] | None = None,
        *,
        timeout: Timeout = DEFAULT,
    ) -> dict[str, object]:
        """Returns the response to a call, without its type.

        Raises APIError, or a subclass for its err_code; JetStreamNotEnabledError if nobody listens;
        RequestTimeoutError if nobody answers; InvalidResponseError; and the errors of
        `Client.request`.
        """
        msg = self.ask(call, self.encode(body), timeout=timeout)
        response = decode_object(msg.data, self.subject(call))
        if "error" in response:
            raise self._error(response["error"])
        response.pop("type", None)
        return response

    def encode(self, body: Mapping[str, object] | None) -> bytes:
        """The payload of a request."""
        return json.dumps(body).encode() if body else b""

    def ask(
        self,
        call: str,
        data: bytes,
        *,
        timeout: Timeout = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """Returns the message that answers a call, for responses that are not JSON."""
        subject = self.subject(call)
        try:
            return self.core.request(subject, data, timeout=self.seconds(timeout), headers=headers)
        except NoRespondersError as error:
            reason = f"JetStream not enabled: no responders on {subject}"
            raise JetStreamNotEnabledError(503, 0, reason) from error

    def pause(self, seconds: float) -> None:
        """Waits while the connection keeps working; returns at once when it is lost or closed."""
        with self.core.open_replies(f"{self.prefix}.PAUSE") as nothing:
            try:
                nothing.next(seconds)
            except ConnectionReconnectingError:
                pass  # the next call reports it

    def pages(
        self, call: str, key: str, read: Callable[[object, str], _T], **body: object
    ) -> Iterator[_T]:
        """Iterates over the list under `key`, page by page; requests each page when it is
        needed."""
        offset = 0
        while True:
            response = self.request(call, {**body, "offset": offset})
            page = response.get(key) or []
            if not isinstance(page, list):
                raise InvalidResponseError(self.subject(call), f"{key} is not a list")
            for item in page:
                yield read(item, self.subject(call))
            missing = response.get("missing")  # streams and consumers without a leader
            step = len(page) + (_count_unlisted(missing, page) if isinstance(missing, list) else 0)
            offset += step
            total = response.get("total")
            if not step or not isinstance(total, int) or offset >= total:
                return

    def step_down(self, call: str, preferred: str) -> None:
        """Makes the leader of a stream or consumer hand over to the server `preferred`, or to any
        other server."""
        check_text(preferred=preferred)
        body: dict[str, object] = {}
        if preferred:
            self.need("a preferred leader", "2.11")
            body = {"placement": {"preferred": preferred}}
        self.request(call, body)

    def check_supported(self, config: JSONObject) -> None:
        """Raises UnsupportedError if the server is known to be too old for a field that is set.

        Servers before 2.12 ignore unknown fields: a consumer could lose its filter.
        """
        if self.is_local:
            for name, needed in config.needs():
                self.need(name, needed)

    def need(self, feature: str, needed: str) -> None:
        """Raises UnsupportedError if the server is known to be older than `needed`."""
        if self.is_local and self.is_older(needed):
            raise UnsupportedError(feature, needed, self.core.server_info.version)

    def is_older(self, version: str) -> bool:
        """Returns whether the connected server is older than `version`."""
        return _numbers(self.core.server_info.version) < _numbers(version)

    def _error(self, error: object) -> APIError | UnsupportedError:
        made = api_error(error)
        field = made.description.partition("unknown field ")[2]
        if made.err_code == INVALID_JSON and field:
            return UnsupportedError(field.strip('"'), "", self.core.server_info.version)
        return made


def check_kept(asked: JSONObject, got: JSONObject) -> None:
    """Raises UnsupportedError for a field of `asked` that is missing in `got`: an old server, in
    another domain or in a cluster that is being upgraded, has dropped it."""
    kept = dict(got.needs())
    for name, needed in asked.needs():
        if name not in kept:
            raise UnsupportedError(name, needed, "")


def _count_unlisted(missing: list[object], page: list[object]) -> int:
    """Returns how many of the names `missing` are not those of items in `page`. A cluster lists a
    stream or consumer in both if all servers that hold it are offline."""
    configs = [item["config"] for item in page if isinstance(item, dict) and "config" in item]
    listed = [
        config.get(key)
        for config in configs
        if isinstance(config, dict)
        for key in ("name", "durable_name")
    ]
    return sum(name not in listed for name in missing)


def _prefix(domain: str | None, prefix: str | None) -> str:
    check_text(domain=domain or "", prefix=prefix or "")
    if domain is not None and prefix is not None:
        raise OptionError("domain", "excludes prefix")
    if domain is not None:
        if not domain or _is_no_token(domain) or "." in domain:
            raise OptionError("domain", f"not a domain: {domain!r}")
        return f"$JS.{plain(domain)}.API"
    if prefix is None:
        return "$JS.API"
    bare = prefix.removesuffix(".")
    if any(_is_no_token(token) for token in bare.split(".")):
        raise OptionError("prefix", f"not a prefix of subjects: {prefix!r}")
    return bare


def _is_no_token(text: str) -> bool:
    return not text or text in "*>" or any(character in text for character in " \t\r\n*>")


def _numbers(version: str) -> tuple[int, ...]:
    """2.10.4-beta.1 -> (2, 10, 4). A version in an unknown format counts as the newest."""
    parts = version.partition("-")[0].removeprefix("v").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else (1 << 31,)
