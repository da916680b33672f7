"""The trained state of a table as blocks of keys and rows: read for a checkpoint, and written from one."""
from typing import Callable, Iterator, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import Block, CandidateBlock
from ascpipe.tf.hold import TableState
from ascpipe.words import TRAINED

BLOCK_ENTRIES = 1 << 16


Which = Callable[[np.ndarray], np.ndarray]  #: ENTRY[n] -> bool[n]: which of these entries are meant


def trained(entries: np.ndarray) -> np.ndarray:
    """bool[n]: which entries have trained state."""
    return entries["state"] == TRAINED


def count(state: TableState, which: Which = trained) -> Tuple[int, int]:
    """(keys that have a row, keys that are only counted)."""
    rows = candidates = 0
    for entries in entry_blocks(state):
        meant = which(entries)
        with_row = int(np.count_nonzero(meant & _has_row(entries)))
        rows += with_row
        candidates += int(np.count_nonzero(meant)) - with_row
    return rows, candidates


def blocks(state: TableState, which: Which = trained) -> Iterator[Block]:
    """The keys that have a row, in the order of their entries."""
    for entries in entry_blocks(state):
        chosen = entries[which(entries) & _has_row(entries)]
        if len(chosen):
            yield Block(chosen["key"], _read_rows(state, chosen), chosen["count"], chosen["timestamp"])


def candidates(state: TableState, which: Which = trained) -> Iterator[CandidateBlock]:
    """The keys that are only counted."""
    for entries in entry_blocks(state):
        chosen = entries[which(entries) & ~_has_row(entries)]
        if len(chosen):
            yield CandidateBlock(chosen["key"], chosen["count"], chosen["timestamp"])


def write_block(state: TableState, start: int, block: Block, columns: Sequence[Tuple[int, int, int]],
                fresh: Sequence[Tuple[int, int, float]] = ()) -> None:
    """Write keys and rows into entries and rows ``start`` and following, of a table that is being loaded.

    Args:
        columns: (column in the block's rows, column in a row, width) of what is taken over of each row.
        fresh: (column in a row, width, value) of what begins anew.
    """
    n = len(block.keys)
    places = np.arange(start, start + n, dtype=np.int32)
    has_homes = len(state.homes) > 0
    _write_entries(state, start, block.keys, block.counts, block.timestamps)
    state.entries["home" if has_homes else "slot"][start:start + n] = places
    state.entries["slot" if has_homes else "home"][start:start + n] = -1
    for source, column, width in columns:
        _columns(state, column, width)[start:start + n] = block.rows[:, source:source + width]
    for column, width, value in fresh:
        _columns(state, column, width)[start:start + n] = value


def write_candidates(state: TableState, start: int, block: CandidateBlock) -> None:
    """Write keys that are only counted into entries ``start`` and following, of a table that is being loaded."""
    _write_entries(state, start, block.keys, block.counts, block.timestamps)
    state.entries["home"][start:start + len(block.keys)] = -1
    state.entries["slot"][start:start + len(block.keys)] = -1


def _write_entries(state: TableState, start: int, keys: np.ndarray, counts: np.ndarray, stamps: np.ndarray) -> None:
    entries = state.entries[start:start + len(keys)]
    entries["key"], entries["count"], entries["timestamp"] = keys, counts, stamps
    entries["last"] = entries["frequency"] = 0
    entries["state"] = TRAINED


def entry_blocks(state: TableState) -> Iterator[np.ndarray]:
    """ENTRY[n]: the entries that were ever used, block by block."""
    used = int(state.header["entries_used"])
    for start in range(0, used, BLOCK_ENTRIES):
        yield state.entries[start:min(start + BLOCK_ENTRIES, used)]


def _has_row(entries: np.ndarray) -> np.ndarray:
    return (entries["slot"] >= 0) | (entries["home"] >= 0)


def _read_rows(state: TableState, entries: np.ndarray) -> np.ndarray:
    """float32[n, row floats]: a row that is on the device is newer there than at home."""
    slots, homes = entries["slot"], entries["home"]
    on_device = slots >= 0
    if not len(state.homes):
        return np.concatenate([array[slots] for array in state.device], axis=1)
    rows = state.homes[homes]
    if on_device.any():
        rows[on_device] = np.concatenate([array[slots[on_device]] for array in state.device], axis=1)
    return rows


def _columns(state: TableState, column: int, width: int) -> np.ndarray:
    """float32[rows, width]: a part of each row, at home, or else on the device."""
    if len(state.homes):
        return state.homes[:, column:column + width]
    for array in state.device:
        if column == 0:
            return array
        column -= array.shape[1]
    raise ValueError("no state array of the table begins there")
