"""Ranges of numbers in options."""

from __future__ import annotations

from math import isnan

import click


class FloatRange(click.FloatRange):
    """A number in a range. click's own type accepts NaN, which no comparison finds out of range."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; fails if the value is not a number or out of range."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number
