"""The captures and options of one command, as one value, and the dissection `Options` made from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, dataclass, field, fields

from natsync.protocol import Kind

from ..capture.sources import STDIN
from ..capture.time_range import TimeBound, check_bounds
from ..options import Options
from ..output.sink import Fault
from ..tcp.limits import FlowLimits, Limits

_FLOWS = FlowLimits()
_STREAMS = Limits()

# The fields that have an effect only if captures are read.
_READING = (
    "hints",
    "key_logs",
    "from_time",
    "until_time",
    "kinds",
    "separate",
    "gap_seconds",
    "max_stream_bytes",
    "max_held_bytes",
    "max_flows",
    "idle_seconds",
    "max_expanded",
    "no_redact",
    "jobs",
)

# The options whose names differ from those of their fields.
_NAMES = {
    "hints": "--port",
    "key_logs": "--keylog",
    "from_time": "--from",
    "until_time": "--until",
    "kinds": "--kind",
    "variables": "--var",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """The captures and options of one command."""

    captures: tuple[str, ...]
    format: str = "text"
    output: str | None = None
    columns: str | None = None
    where: str | None = None
    jobs: int | None = None
    limit: int | None = None
    csv_safe: bool = False
    progress: bool | None = None
    hints: dict[int, Kind] = field(default_factory=dict)
    no_redact: bool = False
    payload: str = "none"
    from_time: TimeBound | None = None
    until_time: TimeBound | None = None
    kinds: tuple[str, ...] = ()
    separate: bool = False
    sort: str | None = None
    gap_seconds: float = _STREAMS.patience_ns / 1e9
    max_stream_bytes: int = _STREAMS.held_bytes
    max_held_bytes: int = _FLOWS.held_bytes
    max_flows: int = _FLOWS.max_flows
    idle_seconds: float = _FLOWS.idle_ns / 1e9
    max_expanded: int | None = None
    key_logs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises Fault if no packet can be in the range of time."""
        try:
            check_bounds(self.from_time, self.until_time)
        except ValueError:
            raise Fault("--from is not before --until: no packet can match") from None

    @property
    def live(self) -> bool:
        """Whether packets may still be arriving."""
        return STDIN in self.captures

    @property
    def path(self) -> str | None:
        """The output file; None for standard output."""
        return None if self.output == "-" else self.output

    @property
    def other_inputs(self) -> tuple[str, ...]:
        """The files and folders that the command reads beside captures."""
        return self.key_logs

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of the options that may leave out rows."""
        values = {
            "--where": self.where is not None,
            "--kind": self.kinds,
            "--from": self.from_time,
            "--until": self.until_time,
        }
        return tuple(name for name, value in values.items() if value)

    def refuse(self, names: Collection[str], output: str) -> None:
        """Raises Fault if one of these fields does not have its default value: the option would have no
        effect. `output` says what the command prints instead of rows."""
        for each in fields(self):
            value = getattr(self, each.name)
            made = each.default_factory
            default = each.default if made is MISSING else made()
            if each.name in names and value != default:
                name = _NAMES.get(each.name, f"--{each.name.replace('_', '-')}")
                shown = f"{name} {value}" if each.name == "format" else name
                raise Fault(f"{shown} does not go with {output}")

    def refuse_reading(self) -> None:
        """Raises Fault for options that only captures need: `--tables` reads none."""
        self.refuse(_READING, "--tables, which are not dissected again")

    def refuse_formulas(self) -> None:
        """Raises Fault for `--csv-safe` without `--format csv`."""
        if self.format != "csv":
            self.refuse(("csv_safe",), f"--format {self.format}, which has no formulas")

    @property
    def dissection(self) -> Options:
        """The options of the dissection."""
        return Options(
            hints=self.hints,
            payload=self.payload,
            redact=not self.no_redact,
            stream_limits=Limits(
                held_bytes=self.max_stream_bytes,
                patience_ns=round(self.gap_seconds * 1e9),
            ),
            flow_limits=FlowLimits(
                max_flows=self.max_flows,
                idle_ns=round(self.idle_seconds * 1e9),
                held_bytes=self.max_held_bytes,
            ),
            kinds=self.kinds or None,
            from_time=self.from_time,
            until_time=self.until_time,
            separate=self.separate,
            max_expanded=self.max_expanded,
            key_logs=self.key_logs,
        )


def command_options(values: dict[str, object]) -> CommandOptions:
    """The command line, parsed by click, as one value. Raises Fault."""
    return CommandOptions(**values)  # type: ignore[arg-type]  # the options above declare the same types
