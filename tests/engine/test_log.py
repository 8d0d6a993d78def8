"""There is one logger, with the name that the README gives."""

from __future__ import annotations

import logging

from natsync._engine.log import logger


def test_the_logger_is_named_after_the_package() -> None:
    assert logger() is logging.getLogger("natsync")
