"""Subjects: where each is valid, and which subscription matches which message (ADR-6).

A subject consists of tokens between dots; the token `*` stands for any one token, a last token `>` for one or
more. Servers and official clients accept every byte but blank, tab, CR and LF, and treat `foo*` as a literal.
"""

from __future__ import annotations

from .errors import ProtocolError

__all__ = [
    "are_plain",
    "check_publish",
    "check_queue",
    "check_subscribe",
    "is_literal",
    "matches",
]

_SHOWN_BYTES = 64
_NOT_LITERAL = frozenset((b"", b"*", b">"))
NOT_PLAIN = bytes.maketrans(b" \t\r\n*>", bytes(6))
"""A table for `bytes.translate`, which replaces the bytes that no plain subject has; see `are_plain`."""


def check_publish(subject: bytes, what: str = "subject") -> None:
    """Raises ProtocolError unless a message can be published to `subject` and reach somebody.

    That is: no whitespace, no empty token and no wildcard. A server treats the last two as literals, which
    no subscription matches or, in the case of a wildcard, matches by accident (ADR-6). The error calls the
    subject `what`.
    """
    _check_token(subject, what)
    _check_tokens(subject.split(b"."), subject, what)
    if not is_literal(subject):
        raise _invalid(subject, what, "contains a wildcard")


def are_plain(dotted: str) -> bool:
    """Whether one or more subjects are certainly valid to publish to. `dotted` has a dot before, between and
    after them.

    This quick test accepts nearly all subjects in use; the others need `check_publish`. A regular expression
    takes 1.8 times as long (CPython 3.11).
    """
    if ".." in dotted:  # an empty token
        return False
    try:
        wire = dotted.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return wire.translate(NOT_PLAIN) == wire


def check_subscribe(subject: bytes) -> None:
    """Raises ProtocolError unless a server takes `subject` in a SUB: no empty token, `>` only last."""
    _check_token(subject, "subject")
    tokens = subject.split(b".")
    _check_tokens(tokens, subject, "subject")
    if b">" in tokens[:-1]:
        raise _invalid(subject, "subject", "has > before its last token")


def check_queue(queue: bytes) -> None:
    """Raises ProtocolError unless `queue` can name a queue group: not empty, no whitespace."""
    _check_token(queue, "queue")


def is_literal(subject: bytes) -> bool:
    """Whether `subject` is valid to publish to in pedantic mode: no wildcard, no empty token."""
    return _NOT_LITERAL.isdisjoint(subject.split(b"."))


def matches(pattern: bytes, subject: bytes) -> bool:
    """Whether a subscription to `pattern` gets messages on `subject`.

    Wildcards in `subject` are literals. A subject with an empty token reaches nobody, not even `>`
    (server/sublist.go: match). Takes time linear in the number of tokens.
    """
    wanted, tokens = pattern.split(b"."), subject.split(b".")
    if b"" in tokens:
        return False
    if wanted[-1] == b">":
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
    elif len(tokens) != len(wanted):
        return False
    return all(w in (b"*", g) for w, g in zip(wanted, tokens))


def _check_token(text: bytes, what: str) -> None:
    if not text:
        raise _invalid(text, what, "is empty")
    if 32 in text or 9 in text or 13 in text or 10 in text:
        raise _invalid(text, what, "contains whitespace")


def _check_tokens(tokens: list[bytes], text: bytes, what: str) -> None:
    if b"" in tokens:
        raise _invalid(text, what, "contains an empty token")


def _invalid(text: bytes, what: str, why: str) -> ProtocolError:
    shown = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    more = "..." if len(text) > _SHOWN_BYTES else ""
    return ProtocolError(f"invalid {what} {shown + more!r}: {why}")
