"""The options of `nats-dissect audit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from ..commands.command_options import TABLES_OF, CommandOptions, jobs_of
from ..option_types import Opt, OptionGroup, flag, lists, one_of, text, texts
from ..spark.options.arguments import CONF
from .output.formats import OUTPUTS
from .sigma.levels import Level

NEVER = "never"
_MEANINGS = "; ".join(f"{name}: {form.meaning}" for name, form in OUTPUTS.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(CommandOptions):
    """Captures or tables, rules, and how to show findings."""

    format: Annotated[
        str,
        f"How to write findings. {_MEANINGS}.",
        Opt(OptionGroup.OUTPUT, one_of(OUTPUTS), common=True),
    ] = "text"
    jobs: Annotated[int | None, jobs_of("1")] = None
    rules: Annotated[
        tuple[str, ...],
        "Add the rules in this folder or file, in Sigma's format; a rule replaces one with its id or"
        " name. Repeatable.",
        Opt(OptionGroup.RULES, texts("PATH", "a path or several"), common=True),
    ] = ()
    variables: Annotated[
        Mapping[str, list[str]],
        "Set a value of the placeholder %NAME% in rules, such as known_clusters=east. Repeatable, also"
        " for more values of one name. A rule with a placeholder that has no value does not run.",
        Opt(OptionGroup.RULES, lists("NAME=VALUE", "known_clusters=east"), flags=("--var",)),
    ] = field(default_factory=dict)
    listed: Annotated[
        bool,
        "List the rules.",
        Opt(OptionGroup.RULES, flag(), flags=("--list",), common=True),
    ] = False
    explain: Annotated[
        str | None,
        "Show a rule, and the SQL that it becomes.",
        Opt(OptionGroup.RULES, text("NAME"), common=True),
    ] = None
    suppress: Annotated[
        str | None,
        "A YAML file of known findings, each with a rule, the columns to match and a reason. They are"
        " shown with the reason, counted, and do not change the exit status.",
        Opt(OptionGroup.RULES, text("FILE"), common=True),
    ] = None
    since_last: Annotated[
        str | None,
        "Only findings that earlier audits with this FILE did not show; FILE remembers them. Over the tables"
        " of an archive, only what was added since is audited.",
        Opt(OptionGroup.RULES, text("FILE")),
    ] = None
    fail_on: Annotated[
        str,
        "Exit with status 1 if there is a finding of this level or a worse one.",
        Opt(OptionGroup.RULES, one_of([*Level.__members__, NEVER]), common=True),
    ] = Level.high.name
    tables: Annotated[str | None, TABLES_OF] = None
    master: Annotated[
        str | None,
        "Run the rules over the tables on this Spark cluster: spark://HOST:PORT, yarn, local[4] ...",
        Opt(OptionGroup.SPARK, text("URL")),
    ] = None
    conf: Annotated[Mapping[str, str], CONF] = field(default_factory=dict)

    @property
    def other_inputs(self) -> tuple[str, ...]:
        """Key logs, rules, suppressions, tables and the findings that were shown."""
        named = filter(None, (self.suppress, self.tables, self.since_last))
        return (*super(AuditOptions, self).other_inputs, *self.rules, *named)
