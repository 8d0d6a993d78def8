"""Blocks of columns have every column of the table `frames`."""

from __future__ import annotations

import pytest

from dissect.nats.kernel import state
from dissect.nats.kernel.frame_block import FrameBlock, NumpyArray, Sender
from dissect.nats.output.arrow import block_columns
from dissect.nats.output.arrow.block_columns import arrays_of_block
from dissect.nats.schema.declaration import Column
from dissect.nats.secrets.redact import NO_SECRETS
from dissect.nats.tables import TABLES

from tests.dissector.kernel.both import KERNEL

pytestmark = KERNEL

np = pytest.importorskip("numpy")


def block_of(account: str) -> FrameBlock:
    """A message without texts."""
    numbers = np.ones((state.R_WIDTH, 1), np.int64)
    numbers[[state.R_LABEL, state.R_CAPTURE, state.R_FIELDS]] = 0
    numbers[state.R_OP] = state.Op.RMSG
    counts = [1] * state.T_NAME + [0, 0]
    texts: list[tuple[NumpyArray, NumpyArray]] = [
        (np.zeros(count + 1, np.int32), np.zeros(0, np.uint8)) for count in counts
    ]
    return FrameBlock(
        numbers, texts, [Sender("a" * 16, "responder", "route", account, NO_SECRETS)], ["c"], []
    )


@pytest.mark.parametrize("column", TABLES["frames"].columns, ids=lambda column: column.name)
def test_each_column_has_a_cell_for_each_row(column: Column) -> None:
    (made,), places = arrays_of_block(block_of(""), [column])
    assert len(made) == 1
    assert places.ends.tolist() == [1]
    assert column.optional or made.null_count == 0


def test_a_message_belongs_to_the_account_of_its_route() -> None:
    column = next(each for each in TABLES["frames"].columns if each.name == "account")
    (made,), _ = arrays_of_block(block_of("A"), [column])
    assert made.to_pylist() == ["A"]
    assert block_columns.arrays_of_releases.__doc__
