"""Rows of the tables of ``ranked.py`` that rank 0 reads, sets and deletes between two steps."""
from typing import Any, Dict, List

import numpy as np

from ascpipe.errors import CallOrderError, OtherRankRowsError
from ascpipe.tf.checkpoints import rank_rows
from tests.support.programs.ranked_case import RANK, RANKS, Case


def edit(case: Case, tables: Dict[str, Any], step: int, told: List[Any]) -> None:
    """Change the same random keys, whatever the number of ranks, and tell what was read and deleted."""
    dice = np.random.RandomState(step)
    rank_rows._PART_BYTES = dice.choice([500, 1 << 17])  # several requests, or one
    for table in tables.values():
        keys = dice.choice(np.arange(-case.keys // 2, case.keys), 24, replace=False)
        rows = dice.randn(8, table.emb_size).astype(np.float32)
        if RANK == 0:
            told.append(_seen(table.read(keys)))
            table.assign(keys[:8], rows)
            told.append(table.delete(keys[8:16]))
            told.append(_seen(table.read(keys)))
            if RANKS > 1 and not case.expansion:
                _require_refusal(table)
        else:
            for call in (lambda: table.read(keys), lambda: table.delete(keys)):  # noqa: B023  (called at once)
                try:
                    call()
                except CallOrderError:
                    continue
                raise RuntimeError("rank {} reads or deletes rows".format(RANK))


def require_own_keys(tables: Dict[str, Any]) -> None:
    """Fail if ``items`` shows keys of another rank, or not all of this rank's keys."""
    for table in tables.values():
        keys = [key for block in table.items(block=50) for key in block.keys.tolist()]
        if len(keys) != table.size() or len(set(keys)) != len(keys) or any(abs(key) % RANKS != RANK for key in keys):
            raise RuntimeError("rank {} has the keys {}".format(RANK, keys))


def _require_refusal(table: Any) -> None:
    """Fail if rank 1 accepts more rows than fit, or if a row of another rank changes."""
    keys = 1 + RANKS * np.arange(table.capacity() + 1)
    before = table.read([0]).rows
    try:
        table.assign(np.append(keys, 0), np.ones((len(keys) + 1, table.emb_size), np.float32))
    except OtherRankRowsError as error:
        if "failed on rank 1: E268" not in str(error) or "Nothing was changed" not in str(error):
            raise
    else:
        raise RuntimeError("rank 1 accepts {} rows".format(len(keys)))
    np.testing.assert_array_equal(table.read([0]).rows, before)


def _seen(found: Any) -> List[Any]:
    slots = [np.nan_to_num(found.slots[name], nan=-1.0).tolist() for name in sorted(found.slots)]
    return [found.keys.tolist(), found.found.tolist(), found.counts.tolist(),
            np.nan_to_num(found.rows, nan=-1.0).tolist(), slots]
