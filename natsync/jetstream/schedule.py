"""Schedules of messages (ADR-51): published once at a given time, or repeatedly."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Literal

from .._checks import check_duration, check_text
from .._json import check_time, format_time
from ..errors import OptionError

__all__ = ["Schedule", "format_ttl"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """When and how a message is published to the subject `target`. The stream must have the target
    among its subjects, and `allow_msg_schedules`. The message that carries the schedule is stored
    under a different subject; a later message on that subject replaces the schedule.

    `when` is a datetime with a time zone; the seconds between messages, at least 1; or a pattern:
    six cron fields, `@hourly`, `@daily` (server 2.14 for everything but a datetime). `ttl` is the
    TTL of the published messages in seconds. With `source`, each published message has the payload
    of the last message on that subject. `time_zone` is the IANA name for a cron pattern. With
    `rollup`, each published message replaces those before it (server 2.14).
    """

    when: datetime | float | str
    target: str
    _: KW_ONLY
    ttl: float | Literal["never"] | None = None
    source: str = ""
    time_zone: str = ""
    rollup: bool = False

    def headers(self) -> list[tuple[str, str]]:
        """Returns the headers that carry the schedule."""
        check_text(target=self.target, source=self.source, time_zone=self.time_zone)
        fields = [("Nats-Schedule", self._pattern()), ("Nats-Schedule-Target", self.target)]
        if self.ttl is not None:
            fields.append(("Nats-Schedule-TTL", format_ttl(self.ttl)))
        if self.source:
            fields.append(("Nats-Schedule-Source", self.source))
        if self.time_zone:
            fields.append(("Nats-Schedule-Time-Zone", self.time_zone))
        if self.rollup:
            fields.append(("Nats-Schedule-Rollup", "sub"))
        return fields

    def _pattern(self) -> str:
        if isinstance(self.when, str):
            return self.when
        if isinstance(self.when, datetime):
            return f"@at {format_time(check_time('when', self.when))}"
        check_duration(when=self.when)
        if self.when < 1:
            raise OptionError("when", "must be at least 1 second")
        return f"@every {round(self.when * 1000)}ms"


def format_ttl(ttl: object) -> str:
    """Returns the value of a TTL header: seconds, or `never`. Servers accept whole seconds or a Go
    duration."""
    if ttl == "never":
        return "never"
    check_duration(ttl=ttl)
    assert isinstance(ttl, (int, float))
    if ttl < 1:
        raise OptionError("ttl", "must be at least 1 second")
    return str(ttl) if isinstance(ttl, int) else f"{round(ttl * 1000)}ms"
