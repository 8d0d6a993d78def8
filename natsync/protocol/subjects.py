"""Subjects: which are valid where, and which subscription matches which message (ADR-6).

A subject is tokens between dots; `*` alone is any one token, `>` alone and last is one token or more.
Servers and official clients accept every byte but blank, tab, CR and LF, and treat `foo*` as a literal.
"""

from __future__ import annotations

from .errors import ProtocolError

__all__ = ["check_publish", "check_queue", "check_subscribe", "is_literal", "matches"]


def check_publish(subject: bytes) -> None:
    """Raises ProtocolError unless `subject` can stand in a PUB: not empty, no blank or line end.

    Wildcards and empty tokens pass, as in every client: the server takes them for literals, and refuses
    them in pedantic mode only. `is_literal` is the stricter question.
    """
    _check_token(subject, "subject")


def check_subscribe(subject: bytes) -> None:
    """Raises ProtocolError unless a server takes `subject` in a SUB: also no empty token, `>` last."""
    _check_token(subject, "subject")
    tokens = subject.split(b".")
    if b"" in tokens:
        raise ProtocolError("subject with an empty token", None, subject)
    if b">" in tokens[:-1]:
        raise ProtocolError("subject with > before its last token", None, subject)


def check_queue(queue: bytes) -> None:
    """Raises ProtocolError unless `queue` can name a queue group: not empty, no blank or line end."""
    _check_token(queue, "queue")


def is_literal(subject: bytes) -> bool:
    """Whether `subject` is valid to publish to in pedantic mode: no wildcard, no empty token."""
    tokens = subject.split(b".")
    return not any(token in (b"", b"*", b">") for token in tokens)


def matches(pattern: bytes, subject: bytes) -> bool:
    """Whether a subscription to `pattern` gets messages on `subject`.

    Wildcards in `subject` are literals. A subject with an empty token reaches nobody, not even `>`
    (server/sublist.go: match). Takes time linear in the number of tokens.
    """
    wanted, given = pattern.split(b"."), subject.split(b".")
    if b"" in given:
        return False
    if wanted[-1] == b">":
        wanted.pop()
        if len(given) <= len(wanted):
            return False
    elif len(given) != len(wanted):
        return False
    return all(w in (b"*", g) for w, g in zip(wanted, given))


def _check_token(text: bytes, what: str) -> None:
    if not text:
        raise ProtocolError(f"empty {what}")
    if 32 in text or 9 in text or 13 in text or 10 in text:
        raise ProtocolError(f"{what} with a blank, tab or line end", None, text)
