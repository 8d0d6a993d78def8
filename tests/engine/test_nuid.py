"""Ids: 22 base62 characters, no two alike."""

from __future__ import annotations

import re

from natsync._engine.nuid import nuid


def test_its_form() -> None:
    assert re.fullmatch("[0-9A-Za-z]{22}", nuid())


def test_all_differ_and_use_the_whole_alphabet() -> None:
    ids = {nuid() for _ in range(2000)}
    assert len(ids) == 2000
    assert len(set("".join(ids))) == 62
