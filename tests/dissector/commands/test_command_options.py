"""One command's options as one value."""

from __future__ import annotations

from dissect.nats.capture.time_range import TimeBound
from dissect.nats.commands.command_options import CommandOptions, command_options
from dissect.nats.options import Options, Payload
from natsync.protocol import Kind


def test_without_options_everything_is_as_from_python() -> None:
    assert CommandOptions(captures=("a",)).dissection == Options()


def test_options_of_the_dissection() -> None:
    made = command_options(
        {
            "captures": ("-",),
            "kinds": ("route",),
            "payload": "text",
            "no_redact": True,
            "until_time": TimeBound(5, True),
            "separate": True,
        }
    )
    expected = Options(
        payload=Payload.TEXT,
        redact=False,
        kinds=[Kind.ROUTE],
        until_time=TimeBound(5, True),
        separate=True,
    )
    assert made.dissection == expected and made.live and made.filters


def test_standard_output_has_no_path() -> None:
    assert CommandOptions(captures=("a",), output="-").path is None
    assert not CommandOptions(captures=("a",), output="b").filters
