"""Class ``Tier``, which stores the state of home rows and disk slots if a table has rows on disk."""
import os
from typing import Any, Dict, Sequence

import numpy as np

from ascpipe.errors import DiskFullError, RowUnreadableError, WorkerError
from ascpipe.kernels import deriving
from ascpipe.kernels.completions import complete_requests
from ascpipe.kernels.disk_slots import mask_words
from ascpipe.kernels.records import Record, late_room
from ascpipe.kernels.tier_memory import ARRAYS, TIER
from ascpipe.layout.row_blocks import TRAILER_BYTES, file_of, slots_per_block
from ascpipe.tables import lazy_arrays
from ascpipe.tables.records import Truth

_FETCH_AHEAD = 1  # see docs/internals/adr/0045-rows-on-disk.md
_KINDS = {array.name: array.kind for array in ARRAYS}

#: content of a disk slot; see ``Damage`` in ``tfops/src/disk/row_format.h``
_DAMAGES = {-1: "data that was never written", -2: "torn bytes", -3: "a row of another key", -4: "an older row",
            0: "all disk slots are in use"}


def _reason(error: int) -> str:
    return os.strerror(error) if error > 0 else _DAMAGES.get(error, "error {}".format(error))


def _room(directory: str) -> str:
    try:
        found = os.statvfs(directory)
    except OSError as error:
        return "{}: {}".format(directory, error.strerror)
    return "{} has {} bytes".format(directory, found.f_bavail * found.f_frsize)


class Tier:
    """Private state of the home rows and disk slots of one table. The caller must call ``derive`` first.

    Args:
        planner: PLANNER that receives the address of the tier.
        truth: shared memory of the table.
    """

    def __init__(self, planner: Any, truth: Truth) -> None:
        header = truth.header
        header_at = truth.header_at
        table = truth.disk_table
        self._planner = planner
        self._requests = truth.requests
        home_rows = int(header["home_capacity"])
        self._row_bytes = 4 * int(header["row_floats"])
        per_block = slots_per_block(self._row_bytes)
        blocks = -(-int(table["disk_slots"]) // per_block)
        tier = np.zeros(1, TIER)
        self._tier: Any = tier[0]
        self._memory: Dict[str, np.ndarray] = {"": tier}
        for name, value in (
                ("home_rows", home_rows), ("view_rows", int(planner["capacity"])), ("blocks", blocks),
                ("per_block", per_block), ("fetch_ahead", _FETCH_AHEAD),
                ("disk_table_at", header_at + int(header["disk_offset"])),
                ("asks_at", header_at + int(table["asks_offset"])),
                ("requests_at", header_at + int(table["requests_offset"]))):
            self._tier[name] = value
        for name, count in (
                ("status", home_rows), ("owners", home_rows), ("in_flight", home_rows),
                ("fetch", int(planner["capacity"])), ("order", 1), ("scores", home_rows + 1),
                ("numbers", 2 * home_rows), ("late", 2 * late_room(home_rows)),
                ("masks", blocks * mask_words(per_block)), ("counts", blocks), ("following", blocks),
                ("before", blocks), ("first", per_block + 1)):
            self._make(name, count)
        for name, count in (("fetch_queue", 2 * home_rows), ("quarantined_homes", home_rows),
                            ("quarantined_slots", 2 * home_rows)):
            room = 1 << max(0, count - 1).bit_length()
            self._make(name, room)
            self._tier[name + "_room"] = room
        planner["tier_at"] = tier.ctypes.data

    @property
    def disk_rows(self) -> int:
        """Return the number of entries whose row is on disk."""
        return int(self._tier["disk_rows"])

    def error(self, table: str, directories: Sequence[str]) -> WorkerError:
        """Return the error to raise when a row cannot be read from disk, or rows cannot be written to disk. Steps
        cannot continue after this error.

        Args:
            table: name of the table.
            directories: directories of the row files.
        """
        tier = self._tier
        if tier["lost"] < 0:
            lacking = int(tier["lacking"])
            return DiskFullError(table, lacking, lacking * (self._row_bytes + TRAILER_BYTES),
                                 _reason(int(tier["last_error"])), "; ".join(map(_room, directories)))
        request = self._requests[int(tier["lost"])]
        slot = int(request["slot"])
        directory = directories[file_of(slot // int(tier["per_block"]), len(directories))]
        return RowUnreadableError(table, int(request["key"]), directory, slot, _reason(int(request["error"])))

    def complete_requests(self) -> bool:
        """Complete finished requests of the disk worker. Return whether no request is in flight afterwards."""
        complete_requests(self._planner, self._tier)
        return not self._tier["in_flight"]

    def derive(self, used: int) -> None:
        """Derive all state from entries and requests. Afterwards, the caller must call ``note`` for each pending
        record, then ``free_unused_homes``.

        Args:
            used: number of entries that were ever used.
        """
        deriving.derive_tier(self._planner, self._tier, used)

    def note(self, number: int, record: Record) -> None:
        """Mark the home rows of a pending record as in use, and the record's frame as pinned. The frame must hold the
        entries of the record.
        """
        deriving.derive_record(self._planner, self._tier, number, record)

    def free_unused_homes(self) -> None:
        """Free all unused home rows."""
        deriving.free_unused_homes(self._planner, self._tier)

    def _make(self, name: str, count: int) -> None:
        array = self._memory[name] = lazy_arrays.zeros(count, _KINDS[name])
        self._tier[name + "_at"] = array.ctypes.data
