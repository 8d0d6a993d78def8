"""The output formats. A new format is a `writer.Format` in its own file, and a line here."""

from __future__ import annotations

from .csv_lines import Csv
from .json_lines import JsonLines
from .parquet import Parquet
from .text.format import Text
from .writer import Format

FORMATS: dict[str, Format] = {
    "text": Text(),
    "jsonl": JsonLines(),
    "csv": Csv(),
    "parquet": Parquet(),
}
"""The formats by the names that `--format` takes, in the order in which the help lists them."""
