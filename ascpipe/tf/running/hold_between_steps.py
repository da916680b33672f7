"""``hold``, which stops the trainer between two training steps to read or replace tables."""
import ctypes
import functools
from typing import Any, Callable, ContextManager, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import KeyBlock, SlotSpec
from ascpipe.layout import structs
from ascpipe.layout.words import HOME_DISK
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.running import native


class TableState(NamedTuple):
    """State of a table.

    Attributes:
        header: the TABLE fields of ``ascpipe/layout/structs.py``.
        entries: ENTRY[n]. Only the first ``header["entries_used"]`` entries were ever used.
        homes: float32[home capacity, row floats], or an object with the same indexing. A row contains the embedding,
            followed by each optimizer slot.
        device: arrays float32[device rows, width]. The first array contains the embeddings of the device table. The
            other arrays contain the optimizer slots that a session has attached.
        disk: the rows on disk, or None if the table has no disk storage.
    """

    header: np.void
    entries: np.ndarray
    homes: Any
    device: List[np.ndarray]
    disk: "Optional[DiskRows]" = None


class DiskRows:
    """Rows of a table that are on disk."""

    def __init__(self, hold: int, table: int, row_floats: int) -> None:
        self._hold = hold
        self._table = table
        self._row_floats = row_floats

    @interruptible
    def reading(self) -> Iterator[None]:
        """Keep disk slots valid until the end of the block.

        In the block, first copy the entries, and then read the disk slots from the copy.
        """
        with native.acquired("asc_disk_begin", self._hold, self._table,
                             release=lambda epoch: native.call("asc_disk_end", self._hold, self._table, epoch),
                             what="a reader of rows on disk"):
            yield

    def read(self, entries: np.ndarray) -> np.ndarray:
        """Return the rows of ``entries``, ENTRY[n], as float32[n, row floats]. The rows must be on disk."""
        rows = np.empty((len(entries), self._row_floats), np.float32)
        self._move(entries, rows, writes=False)
        return rows

    def write(self, entries: np.ndarray, rows: np.ndarray) -> None:
        """Write ``rows``, float32[n, row floats], to the disk slots of ``entries``, ENTRY[n], during a load."""
        self._move(entries, np.ascontiguousarray(rows, np.float32), writes=True)

    def _move(self, entries: np.ndarray, rows: np.ndarray, *, writes: bool) -> None:
        keys = np.ascontiguousarray(entries["key"], np.int64)
        slots = np.ascontiguousarray(HOME_DISK - entries["home"], np.int32)
        generations = np.ascontiguousarray(entries["generation"], np.int32)
        native.call("asc_disk_rows", self._hold, self._table, int(writes), ctypes.c_int64(len(keys)),
                    keys.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), slots.ctypes.data_as(_INTS),
                    generations.ctypes.data_as(_INTS), rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))


_INTS = ctypes.POINTER(ctypes.c_int32)


def _in_memory(memory: np.ndarray, device: List[np.ndarray], disk: Callable[[int], DiskRows]) -> TableState:
    """Return the state of a table whose segment is ``memory``, uint8[bytes].

    ``disk`` returns the table's ``DiskRows`` for a given number of floats per row.
    """
    header = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
    capacity, homes, floats = (int(header[name]) for name in ("entry_capacity", "home_capacity", "row_floats"))
    entries = int(header["entries_offset"])
    rows = int(header["home_offset"])
    return TableState(header, memory[entries:entries + capacity * structs.ENTRY.itemsize].view(structs.ENTRY),
                      memory[rows:rows + 4 * homes * floats].view("<f4").reshape(homes, floats), device,
                      disk(floats) if header["disk_offset"] else None)


class Hold:
    """A hold, during which the trainer is stopped between two steps.

    ``hold`` creates the object. The methods raise the same errors as ``hold``.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def table(self, number: int) -> TableState:
        """Return the state of a table. The arrays of the state are invalid after the hold."""
        base = ctypes.c_void_p()
        size = ctypes.c_int64()
        native.call("asc_table_memory", self._number, number, ctypes.byref(base), ctypes.byref(size))
        memory = np.ctypeslib.as_array(ctypes.cast(base, ctypes.POINTER(ctypes.c_uint8)), (size.value,))
        device: List[np.ndarray] = []
        while True:
            rows = self._device_array(number, len(device))
            if rows is None:
                return _in_memory(memory, device, lambda floats: DiskRows(self._number, number, floats))
            device.append(rows)

    def trained_batches(self, stream: int) -> int:
        """Return the number of trained batches of a stream.

        The number includes batches that were trained before the restored checkpoint was saved.
        """
        return native.number("asc_stream_trained", self._number, stream)

    def read_position(self, stream: int) -> Optional[Tuple[int, int, int, int]]:
        """Return the dataset's position after the last trained batch of a stream, or None if the position is unknown.

        The result contains the source number of the dataset, the pass, the epoch and the number of consumed records.
        """
        position = (ctypes.c_int64 * 4)()
        native.call("asc_stream_position", self._number, stream, position)
        source, pass_number, epoch, consumed = position
        return (source, pass_number, epoch, consumed) if source else None

    def begin_load(self, table: int, entries: int, rows: int) -> None:
        """Delete the content of a table. The caller must then write the new entries and rows, and call ``end_load``.

        Args:
            entries: number of keys.
            rows: number of keys that have a row. The caller writes home rows, starting at row 0. If the table has no
                home rows, the caller writes device rows.

        Raises:
            tf.errors.ResourceExhaustedError: there is too little space or memory. Nothing was changed.
        """
        native.call("asc_load_begin", self._number, table, entries, rows)

    def write_entries(self, table: int, start: int, keys: KeyBlock, *, with_rows: bool) -> None:
        """Write keys into consecutive entries of a table that is being loaded. The number of the first entry is
        ``start``.

        Args:
            keys: keys that are in no other entry.
            with_rows: True if each key has a row, whose number is the number of the entry.
        """
        arrays = [np.ascontiguousarray(values, np.int64) for values in keys]
        native.call("asc_load_entries", self._number, table, start, len(arrays[0]),
                    *(values.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)) for values in arrays), int(with_rows))

    def end_entries(self, table: int) -> None:
        """Notify the table worker that the entries are complete. The table worker then indexes the entries while the
        caller writes rows.
        """
        native.call("asc_load_keyed", self._number, table)

    def abort_load(self, table: int) -> None:
        """Abort a load, and return the empty table to the table worker."""
        native.call("asc_load_end", self._number, table, -1, 0, 0, 0)

    def end_load(self, table: int, entries: int, time: int, threshold: int, *, counting: bool) -> None:
        """Return the loaded table to the table worker.

        Args:
            entries: number of keys, as in ``begin_load``.
            time: greatest timestamp of a trained batch.
            threshold: access threshold, or -1 if every key is admitted.
            counting: True if occurrences are counted.
        """
        native.call("asc_load_end", self._number, table, entries, time, threshold, int(counting))

    def set_seed(self, table: int, seed: int) -> None:
        """Set the seed of the initial rows, an unsigned integer of 64 bits."""
        native.call("asc_table_set_seed", self._number, table, seed)

    def set_pool(self, table: int, pool: np.ndarray) -> None:
        """Replace the pool of initial rows. ``pool`` is float32[rows, dim]."""
        native.call("asc_table_set_pool", self._number, table, pool.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
                    *pool.shape)

    def create_slots(self, table: int, slots: Sequence[SlotSpec]) -> None:
        """Create the optimizer slots of a table on the device, except slots that already exist."""
        native.call("asc_table_give_slots", self._number, table, len(slots),
                    (ctypes.c_int * len(slots))(*(slot.width for slot in slots)),
                    (ctypes.c_float * len(slots))(*(slot.initial or 0.0 for slot in slots)))

    def cut(self, table: int, kind: int, argument: int) -> None:
        """Change a table at the request of rank 0.

        ``argument`` is a threshold for the kind CUT_THRESHOLD, or an age for the kind CUT_EVICT.
        """
        native.call("asc_hold_cut", self._number, table, kind, argument)

    def freeze(self, table: int, *, frozen: bool) -> None:
        """Freeze or unfreeze a table during an exclusive hold. Later steps do not update a frozen table."""
        native.call("asc_table_freeze", self._number, table, int(frozen))

    def saving(self, tables: Sequence[int], log_bytes: int) -> ContextManager[int]:
        """Context manager that takes a snapshot of tables (see ``frozen_tables``), and yields the snapshot's number."""
        return native.acquired("asc_save_begin", self._number, len(tables), (ctypes.c_int * len(tables))(*tables),
                               log_bytes, release=functools.partial(native.call, "asc_save_end"), what="a save")

    def _device_array(self, table: int, index: int) -> Optional[np.ndarray]:
        data = ctypes.POINTER(ctypes.c_float)()
        rows = ctypes.c_int64()
        width = ctypes.c_int64()
        native.call("asc_table_state", self._number, table, index, ctypes.byref(data), ctypes.byref(rows),
                    ctypes.byref(width))
        return np.ctypeslib.as_array(data, (rows.value, width.value)) if data else None


@interruptible
def hold(*, alone: bool) -> Iterator[Hold]:
    """Wait until no step trains, and prevent training in the block.

    Tables stay in the state after the last trained step.

    Args:
        alone: True for an exclusive hold, which may change the state. If False, evaluations may run during the hold.

    Raises:
        tf.errors.OpError: the pipeline does not run or has failed, or the wait took longer than ``wait_timeout_s``.
    """
    with native.acquired("asc_hold_take", int(alone), release=functools.partial(native.call, "asc_hold_release"),
                         what="a hold") as number:
        yield Hold(number)
