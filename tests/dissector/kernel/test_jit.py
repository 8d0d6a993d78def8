"""A wrong index in compiled code raises IndexError."""

from __future__ import annotations

import numpy as np
import pytest

from dissect.nats.kernel.jit import Array, compiled


@compiled
def element(array: Array, index: int) -> int:
    return int(array[index])


def test_an_index_beyond_the_end_is_an_error() -> None:
    assert element(np.arange(3), 2) == 2
    with pytest.raises(IndexError):
        element(np.arange(3), 3)
