"""A hold keeps the trainer between two training steps, so that the state of the tables can be read or replaced."""
import contextlib
import ctypes
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from ascpipe.checkpoint.contents import KeyBlock, SlotSpec
from ascpipe.layout import structs
from ascpipe.layout.words import HOME_DISK
from ascpipe.tf.clean_up import ended_by
from ascpipe.tf.running import native


class TableState(NamedTuple):
    """The state of a table.

    Attributes:
        header: the TABLE fields of ``ascpipe/layout/structs.py``.
        entries: ENTRY[n]; ``header["entries_used"]`` of them, the first ones, were ever used.
        homes: float32[home capacity, row floats], or what is indexed like it; a row is the embedding, then each
            optimizer slot.
        device: float32[device rows, width] each: the rows on the device, then each optimizer slot that a session
            has attached.
        disk: rows on disk; None where no row goes there.
    """

    header: np.void
    entries: np.ndarray
    homes: Any
    device: List[np.ndarray]
    disk: "Optional[DiskRows]" = None


class DiskRows:
    """The rows of a table that are on disk.

    Args:
        hold: the native side's number.
        table: its number.
        row_floats: of a row.
    """

    def __init__(self, hold: int, table: int, row_floats: int) -> None:
        self._hold = hold
        self._table = table
        self._row_floats = row_floats

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Until the end of the block, what entries that are copied in it say of the place of a row holds."""
        epoch = native.number("asc_disk_begin", self._hold, self._table)
        with ended_by(lambda: native.call("asc_disk_end", self._hold, self._table, epoch), "a reader of rows on disk"):
            yield

    def read(self, entries: np.ndarray) -> np.ndarray:
        """float32[n, row floats]: the rows of ENTRY[n], which are on disk."""
        rows = np.empty((len(entries), self._row_floats), np.float32)
        self._move(entries, rows, writes=False)
        return rows

    def write(self, entries: np.ndarray, rows: np.ndarray) -> None:
        """Write float32[n, row floats] where ENTRY[n] of a table that is being loaded say that they are."""
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
    """The state of a table in its segment, uint8[bytes]; ``disk`` makes the rows on disk of so many floats."""
    header = memory[:structs.TABLE.itemsize].view(structs.TABLE)[0]
    capacity, homes, floats = (int(header[name]) for name in ("entry_capacity", "home_capacity", "row_floats"))
    entries = int(header["entries_offset"])
    rows = int(header["home_offset"])
    return TableState(header, memory[entries:entries + capacity * structs.ENTRY.itemsize].view(structs.ENTRY),
                      memory[rows:rows + 4 * homes * floats].view("<f4").reshape(homes, floats), device,
                      disk(floats) if header["disk_offset"] else None)


class Hold:
    """The trainer between two steps. Made by ``hold``, which says what every method raises.

    Args:
        number: the native side's.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def table(self, number: int) -> TableState:
        """The state of a table; its arrays are not to be used after the hold."""
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
        """Batches of a training stream that were trained since its tables were empty, those before a checkpoint too."""
        return native.number("asc_stream_trained", self._number, stream)

    def begin_load(self, table: int, entries: int, rows: int) -> None:
        """Empty a table, and let its first ``entries`` entries be written by the caller, up to ``end_load``.

        Args:
            entries: keys.
            rows: how many of them have a row. Where the table has home rows, those from 0 on are the caller's to
                write, too; else device rows from 0 on.

        Raises:
            tf.errors.ResourceExhaustedError: they do not fit, or there is no memory; nothing was changed.
        """
        native.call("asc_load_begin", self._number, table, entries, rows)

    def write_entries(self, table: int, start: int, keys: KeyBlock, *, with_rows: bool) -> None:
        """Write keys into entries ``start`` and following of a table that is being loaded.

        Args:
            keys: in no other entry.
            with_rows: each has the row of the same number, at home or on the device.
        """
        arrays = [np.ascontiguousarray(values, np.int64) for values in keys]
        native.call("asc_load_entries", self._number, table, start, len(arrays[0]),
                    *(values.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)) for values in arrays), int(with_rows))

    def end_entries(self, table: int) -> None:
        """All entries are written: let the table worker index them while the rows are written."""
        native.call("asc_load_keyed", self._number, table)

    def give_up_load(self, table: int) -> None:
        """Let the table worker take the table back, empty."""
        native.call("asc_load_end", self._number, table, -1, 0, 0, 0)

    def end_load(self, table: int, entries: int, time: int, threshold: int, *, counting: bool) -> None:
        """Let the table worker take over what was written.

        Args:
            entries: as many as were begun.
            time: greatest timestamp of a trained batch.
            threshold: access threshold, -1: the table admits every key.
            counting: whether occurrences are counted.
        """
        native.call("asc_load_end", self._number, table, entries, time, threshold, int(counting))

    def set_seed(self, table: int, seed: int) -> None:
        """From now on rows of new keys come from this seed, 64 bits unsigned."""
        native.call("asc_table_set_seed", self._number, table, seed)

    def set_pool(self, table: int, pool: np.ndarray) -> None:
        """From now on rows of new keys are picked from this pool, float32[rows, dim], as they were from another."""
        native.call("asc_table_set_pool", self._number, table, pool.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
                    *pool.shape)

    def give_slots(self, table: int, slots: Sequence[SlotSpec]) -> None:
        """Make the optimizer slots of a table on the device that no session has attached yet."""
        native.call("asc_table_give_slots", self._number, table, len(slots),
                    (ctypes.c_int * len(slots))(*(slot.width for slot in slots)),
                    (ctypes.c_float * len(slots))(*(slot.initial or 0.0 for slot in slots)))

    def cut(self, table: int, kind: int, argument: int) -> None:
        """Change a table, of several ranks one that rank 0 changes.

        Args:
            kind: CUT_THRESHOLD or CUT_EVICT.
            argument: the threshold, or the age.
        """
        native.call("asc_hold_cut", self._number, table, kind, argument)

    def begin_save(self, tables: Sequence[int], log_bytes: int) -> int:
        """Let the state of these tables, as it is now, be read later, see ``frozen_tables``; the save's number."""
        return native.number("asc_save_begin", self._number, len(tables), (ctypes.c_int * len(tables))(*tables),
                             log_bytes)

    def release(self) -> None:
        """Let training go on."""
        native.call("asc_hold_release", self._number)

    def _device_array(self, table: int, index: int) -> Optional[np.ndarray]:
        data = ctypes.POINTER(ctypes.c_float)()
        rows = ctypes.c_int64()
        width = ctypes.c_int64()
        native.call("asc_table_state", self._number, table, index, ctypes.byref(data), ctypes.byref(rows),
                    ctypes.byref(width))
        return np.ctypeslib.as_array(data, (rows.value, width.value)) if data else None


@contextlib.contextmanager
def hold(*, alone: bool) -> Iterator[Hold]:
    """Wait until no step trains, and keep it so: the state is that after the last trained step.

    Args:
        alone: exclusive, to change the state; else evaluations may run at the same time.

    Raises:
        tf.errors.OpError: the pipeline does not run, has failed, or the wait took longer than ``wait_timeout_s``.
    """
    held = Hold(native.number("asc_hold_take", int(alone)))
    with ended_by(held.release, "a hold"):
        yield held
