"""Subjects that are used only once, such as inboxes: one line, or one figure, stands for all of them."""

from __future__ import annotations

# Inboxes; JetStream's acks and flow control, which end with the numbers of a message; reply subjects that
# routes and gateways rewrite (nats-server: server/accounts.go and server/gateway.go, before 2.2 `$GR.`).
SINGLE_USE = ("_INBOX.", "$JS.ACK.", "$JS.FC.", "_R_.", "_GR_.", "$GR.")


def generic(subject: str) -> str:
    """The subject, or a wildcard such as `_INBOX.>` if it is used only once."""
    if subject[:1] in "_$":
        for prefix in SINGLE_USE:
            if subject.startswith(prefix):
                return f"{prefix}>"
    return subject
