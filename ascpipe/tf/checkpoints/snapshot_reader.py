"""Snapshot of tables that is taken during a hold. Another thread reads the snapshot while training continues.

During the hold, only device rows are copied. The other parts of the snapshot are read afterwards:

- Entries are copied. Before the table worker changes an entry that is not copied yet, it stores an image of the entry.
- Home rows are read in place. Before a step changes a home row that is not read yet, the step stores an image of the
row.
- If a table has rows on disk, the reader reads the entries again to locate the rows.
"""
import ctypes
import mmap
from typing import Dict, Iterator, List, Mapping

import numpy as np

from ascpipe.layout import structs
from ascpipe.layout.words import HOME_NONE, TRAINED
from ascpipe.tf.checkpoints.table_rows import BLOCK_ENTRIES, entry_blocks
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.running import native
from ascpipe.tf.running.hold_between_steps import Hold, TableState


@interruptible
def frozen_tables(held: Hold, numbers: Mapping[str, int], tables: Mapping[str, TableState],
                  log_bytes: int) -> Iterator["FrozenTables"]:
    """Context manager that takes a snapshot of the given tables, and releases the snapshot after the block.

    A process has at most one snapshot.

    Args:
        held: hold of any kind.
        numbers: table name -> number of the table.
        tables: table name -> state of the table.
        log_bytes: bytes of memory for images of home rows that change before they are read. If this memory is full,
            training waits until the snapshot is released.

    Raises:
        tf.errors.ResourceExhaustedError: there is too little memory for the copies or the images. Nothing was changed.
    """
    with held.saving(list(numbers.values()), log_bytes) as save:
        yield FrozenTables(save, numbers, tables)


class FrozenTables:
    """Snapshot of the state of tables during a hold.

    Create it with ``frozen_tables``, whose docstring explains the other arguments.

    Args:
        save: native number of the snapshot.
    """

    def __init__(self, save: int, numbers: Mapping[str, int], tables: Mapping[str, TableState]) -> None:
        self._save = save
        self._numbers = dict(numbers)
        self._headers = {name: at.header.copy() for name, at in tables.items()}
        for header in self._headers.values():
            header["entries_used"] = header["snapshot_bound"]  # exclude entries that were allocated after the hold
        self._home_rows = {name: len(at.homes) for name, at in tables.items()}
        self._on_disk = {name for name, at in tables.items() if at.disk is not None}
        self._device: Dict[str, List[np.ndarray]] = {
            name: [self._copy(number, index, len(tables[name].device[0]))
                   for index in range(len(tables[name].device))] for name, number in self._numbers.items()}

    def tables(self) -> Dict[str, TableState]:
        """Return a dict: name of a table -> state of the table.

        The states are valid until the snapshot is released. Call this method only once, in any thread.
        """
        return {name: self._table(name, number) for name, number in self._numbers.items()}

    def _copy(self, table: int, index: int, rows: int) -> np.ndarray:
        data = _FLOATS()
        width = ctypes.c_int64()
        native.call("asc_save_device", self._save, table, index, ctypes.byref(data), ctypes.byref(width))
        return np.ctypeslib.as_array(data, (rows, width.value))

    def _table(self, name: str, number: int) -> TableState:
        header = self._headers[name]
        entries = _array(int(header["entries_used"]), structs.ENTRY)
        native.call("asc_save_entries", self._save, number, entries.ctypes.data, len(entries))
        on_disk = name in self._on_disk
        if on_disk:
            _name_rows_by_entry(entries)
        homes = _HomeRows(self._save, number, len(entries) if on_disk else self._home_rows[name],
                          int(header["row_floats"]))
        state = TableState(header, entries, homes, self._device[name])
        if len(homes):
            homes.want(_not_on_device(state))
        return state


def _name_rows_by_entry(entries: np.ndarray) -> None:
    """Replace each entry's home row number with the entry's own number, because rows move between memory and disk."""
    for start in range(0, len(entries), BLOCK_ENTRIES):
        homes = entries["home"][start:start + BLOCK_ENTRIES]
        homes[homes != HOME_NONE] = start + np.flatnonzero(homes != HOME_NONE)


def _not_on_device(state: TableState) -> np.ndarray:
    """Return int32[n]: the home row of each key that is not in the device table.

    These home rows are up to date.
    """
    found = _array(len(state.entries), np.dtype(np.int32))
    n = 0
    for entries in entry_blocks(state):
        homes = entries["home"][(entries["state"] == TRAINED) & (entries["slot"] < 0) & (entries["home"] != HOME_NONE)]
        found[n:n + len(homes)] = homes
        n += len(homes)
    return found[:n]


def _array(count: int, dtype: np.dtype) -> np.ndarray:
    """Allocate zeros with mmap.

    Unlike with malloc, the memory is returned to the operating system as soon as the array is freed.
    """
    memory = mmap.mmap(-1, max(1, count * dtype.itemsize), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype, count)


class _HomeRows:
    """Home rows of one table in a snapshot. The object can be indexed like an array float32[rows, row floats].

    An access returns copies. Access each row at most once.
    """

    def __init__(self, save: int, table: int, rows: int, floats: int) -> None:
        self._save = save
        self._table = table
        self._rows = rows
        self._floats = floats

    def __len__(self) -> int:
        return self._rows

    def want(self, homes: np.ndarray) -> None:
        """Restrict the snapshot to the given home rows. Call this method before the first read."""
        wanted = np.ascontiguousarray(homes, np.int32)
        native.call("asc_save_want", self._save, self._table, wanted.ctypes.data_as(_INTS), len(wanted))

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self.take(np.arange(rows.start, rows.stop), axis=0)

    def take(self, homes: np.ndarray, axis: int) -> np.ndarray:
        """Return the home rows with the numbers ``homes``, as float32[n, row floats]. ``homes`` is int32[n]. ``axis``
        is always 0.
        """
        wanted = np.ascontiguousarray(homes, np.int32)
        rows = np.empty((len(wanted), self._floats), np.float32)
        native.call("asc_save_rows", self._save, self._table, wanted.ctypes.data_as(_INTS), len(wanted),
                    rows.ctypes.data_as(_FLOATS))
        return rows


_INTS = ctypes.POINTER(ctypes.c_int32)
_FLOATS = ctypes.POINTER(ctypes.c_float)
