"""Functions that read the trained state of a table in blocks, and write the rows of a checkpoint to a table."""
import contextlib
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import KeyBlock, PartedBlock, columns
from ascpipe.layout.words import HOME_DISK, HOME_NONE, TRAINED
from ascpipe.tf.running.hold_between_steps import TableState

BLOCK_ENTRIES = 1 << 14  #: entries per block. A block of this size is still in the CPU cache when it is written


Which = Callable[[np.ndarray], np.ndarray]  #: ENTRY[n] -> bool[n], True for selected entries


def trained(entries: np.ndarray) -> np.ndarray:
    """Return bool[n], which is True for the entries whose state is ``TRAINED``."""
    return entries["state"] == TRAINED


def count(state: TableState, which: Which = trained) -> Tuple[int, int]:
    """Return the number of keys that have a row, and the number of keys that are counted but have no row."""
    rows = candidates = 0
    for entries in entry_blocks(state):
        meant = which(entries)
        with_row = int(np.count_nonzero(meant & _has_row(entries)))
        rows += with_row
        candidates += int(np.count_nonzero(meant)) - with_row
    return rows, candidates


def blocks(state: TableState, which: Which = trained) -> Iterator[PartedBlock]:
    """Yield blocks of keys that have a row, in the order of their entries. The rows may be views of the table."""
    for entries in entry_blocks(state):
        with contextlib.nullcontext() if state.disk is None else state.disk.reading():
            chosen = entries[which(entries) & _has_row(entries)]
            rows = _read_rows(state, chosen) if len(chosen) else ()
        if len(chosen):
            yield PartedBlock(chosen["key"], rows, chosen["count"], chosen["timestamp"])


def candidates(state: TableState, which: Which = trained) -> Iterator[KeyBlock]:
    """Yield blocks of keys that are counted but have no row."""
    for entries in entry_blocks(state):
        chosen = entries[which(entries) & ~_has_row(entries)]
        if len(chosen):
            yield KeyBlock(chosen["key"], chosen["count"], chosen["timestamp"])


def write_rows(state: TableState, start: int, parts: Sequence[np.ndarray], taken: Sequence[Tuple[int, int, int]],
               fresh: Sequence[Tuple[int, int, float]] = ()) -> None:
    """Write consecutive rows of a table that is being loaded. The number of the first row is ``start``.

    Args:
        parts: arrays float32[n, width]. Concatenated along axis 1, the arrays are the saved rows.
        taken: (column in a saved row, column in a row, width) of each range of columns to copy.
        fresh: (column in a row, width, value) of each range of columns to initialize.
    """
    n = len(parts[0])
    if state.disk is not None and start + n > len(state.homes):
        _write_to_disk(state, start, parts, taken, fresh)
        return
    rows = (state.homes,) if len(state.homes) else state.device
    for source, column, width in taken:
        there = columns(rows, column, width)[start:start + n]
        part = columns(parts, source, width)
        if not np.may_share_memory(there, part):  # otherwise the reader has already read the part into the table
            there[:] = part
    for column, width, value in fresh:
        columns(rows, column, width)[start:start + n] = value


def _write_to_disk(state: TableState, start: int, parts: Sequence[np.ndarray], taken: Sequence[Tuple[int, int, int]],
                   fresh: Sequence[Tuple[int, int, float]]) -> None:
    """Write as many rows as possible to home rows, and the other rows to disk.

    The arguments are the same as in ``write_rows``.
    """
    n = len(parts[0])
    homes = len(state.homes)
    rows = np.empty((n, state.homes.shape[1]), np.float32)
    for source, column, width in taken:
        rows[:, column:column + width] = columns(parts, source, width)
    for column, width, value in fresh:
        rows[:, column:column + width] = value
    at_home = max(0, homes - start)
    state.homes[start:homes] = rows[:at_home]
    if state.disk is not None:
        state.disk.write(state.entries[start + at_home:start + n], rows[at_home:])


def row_targets(state: TableState, taken: Sequence[Tuple[int, int, int]], start: int, n: int,
                widths: Sequence[int]) -> List[Optional[np.ndarray]]:
    """For each part that ``write_rows`` will write, return the destination in the device table.

    An item is None if the part has no contiguous destination there. A reader can read parts directly into the
    destinations.

    Args:
        taken: the same as in ``write_rows``.
        start: number of the first row.
        n: number of rows.
        widths: widths of the parts.
    """
    targets: List[Optional[np.ndarray]] = []
    source = 0
    for width in widths:
        column = next((column for found, column, taken_width in taken if (found, taken_width) == (source, width)), None)
        target = None if column is None or len(state.homes) else columns(state.device, column, width)[start:start + n]
        targets.append(target if target is not None and target.flags.c_contiguous else None)
        source += width
    return targets


def entry_blocks(state: TableState) -> Iterator[np.ndarray]:
    """Yield all entries that were ever used, in blocks ENTRY[n]."""
    used = int(state.header["entries_used"])
    for start in range(0, used, BLOCK_ENTRIES):
        yield state.entries[start:min(start + BLOCK_ENTRIES, used)]


def _has_row(entries: np.ndarray) -> np.ndarray:
    return (entries["slot"] >= 0) | (entries["home"] != HOME_NONE)


def _read_rows(state: TableState, entries: np.ndarray) -> Tuple[np.ndarray, ...]:
    """Return the rows of entries as arrays that each contain some of the columns.

    A row in the device table is read there, because it is newer than the home row.
    """
    slots = entries["slot"]
    homes = entries["home"]
    if not len(state.homes):
        return tuple(_at(array, slots) for array in state.device)
    on_device = np.flatnonzero(slots >= 0)
    on_disk = np.flatnonzero((slots < 0) & (homes <= HOME_DISK))
    if not len(on_device) and not len(on_disk):
        return (_at(state.homes, homes),)
    rows = state.homes.take(np.maximum(homes, 0), axis=0)
    if len(on_disk) and state.disk is not None:
        rows[on_disk] = state.disk.read(entries[on_disk])
    column = 0
    for array in state.device:
        rows[on_device, column:column + array.shape[1]] = array.take(slots[on_device], axis=0)
        column += array.shape[1]
    return (rows,)


def _at(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the rows of an array at the indices ``places``.

    The result is a view if the rows are consecutive, for example rows of new keys. Otherwise, the result is a copy.
    """
    first = int(places[0])
    n = len(places)
    if int(places[-1]) - first == n - 1 and (np.diff(places) == 1).all():
        return array[first:first + n]
    return array.take(places, axis=0)
