"""When messages were delivered: several subscriptions may get a message, and each acknowledges its own."""

from __future__ import annotations

from collections import OrderedDict

_DELIVERIES = 32_768  # two for each message


class DeliveryTimes:
    """The times of the latest deliveries. An empty inbox stands for the latest one to any inbox, because the
    subscription of an ack may be unknown."""

    def __init__(self) -> None:
        self._times = OrderedDict[tuple[str, int, str], int]()  # by channel, sequence and inbox

    def __contains__(self, message: tuple[str, int]) -> bool:
        return (*message, "") in self._times

    def add(self, channel: str, sequence: int, inbox: str, ts_ns: int) -> None:
        """Adds a delivery to an inbox; the oldest is forgotten if there are too many."""
        for name in ("", inbox):
            if len(self._times) >= _DELIVERIES:
                self._times.popitem(last=False)
            self._times[channel, sequence, name] = ts_ns

    def take(self, channel: str, sequence: int, inbox: str) -> int | None:
        """Removes and returns the time of a delivery that was acknowledged; None if it is unknown."""
        return self._times.pop((channel, sequence, inbox), None)
