"""Choice of the keys to import into a table, and of the counts and timestamps of these keys."""
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint
from ascpipe.checkpoint.contents import INT_BYTES, KeyBlock, TableSpec
from ascpipe.checkpoint.key_order import sort_keys
from ascpipe.checkpoint.keys import belongs, places
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.table_folders import candidate_pieces, count_pieces
from ascpipe.rows.columns import COUNT, TIMESTAMP
from ascpipe.rows.sources import Source, checked_parts

_BLOCK_ROWS = 1 << 20  #: keys of the table that are searched at a time; many keys make the search faster
KEEP = "keep"
REPLACE = "replace"


class There(NamedTuple):
    """State of a source's keys in the table. Each array has one item per key, in ascending order of the keys.

    Attributes:
        has_row: bool[m], whether the table has a row for the key.
        is_counted: bool[m], whether the key is only counted in the table, without a row.
        counts, timestamps: int64[m], values that a row gets if the files have none.
    """

    has_row: np.ndarray
    is_counted: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray


class Plan(NamedTuple):
    """Keys of a source, and the keys of the table into which the source is imported.

    Attributes:
        keys: int64[m], all keys of the source, sorted.
        there: state of these keys in the table, or None if the table has none of them.
        latest: largest timestamp of the source, or 0.
        rows: for each rank, which rows of the table have a key that the source has, as bool[rows].
    """

    keys: np.ndarray
    there: Optional[There]
    latest: int
    rows: Sequence[np.ndarray]

    @property
    def matched(self) -> int:
        """Return the number of keys of the source that have a row in the table."""
        return 0 if self.there is None else int(self.there.has_row.sum())

    def new(self, rank: int, ranks: int) -> int:
        """Return the number of a rank's keys for which the import adds a row."""
        keys = self.keys if self.there is None else self.keys[~self.there.has_row]
        return int(belongs(keys, rank, ranks).sum())

    def no_longer_counted(self, rank: int, ranks: int) -> int:
        """Return the number of a rank's keys that had only a count before the import and now get a row."""
        return 0 if self.there is None else int(belongs(self.keys[self.there.is_counted], rank, ranks).sum())

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Return bool[n], which is True for the keys that the source contains."""
        return places(self.keys, keys)[1]


def planned(checkpoint: Checkpoint, spec: TableSpec, source: Source) -> Plan:
    """Read all keys of the source and of the table.

    Raises:
        RowsNotImportedError: a key occurs twice, or a key, count or timestamp is not allowed.
        DamagedRowsError: a file is damaged or cannot be read.
        NoMemoryToReadError: the keys do not fit into memory.
    """
    keys, latest = read_keys(source, spec, checkpoint.prefix, [name for name in (COUNT, TIMESTAMP)
                                                               if name in source.columns])
    there: Optional[There] = None
    rows: List[np.ndarray] = []
    ranks = len(checkpoint.positions)
    for rank in range(ranks):
        of_rank = [np.empty(0, bool)]
        for arrays in checkpoint.arrays(spec.name, count_pieces, rank, ranks, _BLOCK_ROWS):
            place, is_there = places(keys, arrays[0])
            there = _matched(keys, there, KeyBlock(*arrays), spec, (place, is_there, True))
            of_rank.append(is_there)
        rows.append(np.concatenate(of_rank))
    for arrays in checkpoint.arrays(spec.name, candidate_pieces, block_rows=_BLOCK_ROWS):
        there = _matched(keys, there, KeyBlock(*arrays), spec, (*places(keys, arrays[0]), False))
    return Plan(keys, there, latest, rows)


def read_keys(source: Source, spec: TableSpec, prefix: str, columns: Sequence[str]) -> Tuple[np.ndarray, int]:
    """Read and check all keys, and the values of other columns.

    Args:
        prefix: checkpoint or path, for the error message if there is too little memory.
        columns: columns to check besides ``key``.

    Returns:
        The sorted keys, int64[m], and the largest timestamp, or 0 if ``columns`` does not contain timestamps.

    Raises:
        RowsNotImportedError, DamagedRowsError, NoMemoryToReadError: the same errors as in ``planned``.
    """
    found = [np.empty(0, np.int64)]
    latest = 0
    for part in checked_parts(source, spec, columns):
        found.append(part.keys)
        if TIMESTAMP in columns and len(part.keys):
            latest = max(latest, int(part.values[TIMESTAMP].max()))
    with memory_for(prefix, "the keys of {}".format(source.path), 2 * INT_BYTES * sum(len(keys) for keys in found)):
        keys = np.concatenate(found)
        del found
        if not (keys[1:] > keys[:-1]).all():
            sort_keys(keys)
    _check_unique(keys, spec, source)
    return keys, latest


def _check_unique(keys: np.ndarray, spec: TableSpec, source: Source) -> None:
    doubles = keys[1:][keys[1:] == keys[:-1]]
    if not len(doubles):
        return
    first: List[str] = []
    for part in checked_parts(source, spec, ()):
        for row in np.flatnonzero(part.keys == doubles[0]).tolist():
            first.append(part.place(row))
        if len(first) > 1:
            raise source.refused(first[1], "key {} occurs twice, first in {}".format(doubles[0], first[0]),
                                 len(doubles))
    source.check_unchanged()
    raise source.refused(source.path, "key {} occurs twice".format(doubles[0]), len(doubles))


def _matched(keys: np.ndarray, there: Optional[There], block: KeyBlock, spec: TableSpec,
             found: Tuple[np.ndarray, np.ndarray, bool]) -> Optional[There]:
    """Record in ``there`` which keys of the source are in ``block``, a block of the table.

    Args:
        found: result of ``places`` for the keys of the block, and whether the keys have rows.
    """
    place, is_there, has_row = found
    if not is_there.any():
        return there
    least = threshold_of(spec)
    if there is None:
        count = len(keys)
        there = There(np.zeros(count, bool), np.zeros(count, bool), np.full(count, least),
                      np.full(count, time_of(spec)))
    at = place[is_there]
    (there.has_row if has_row else there.is_counted)[at] = True
    there.counts[at] = block.counts[is_there] if has_row else np.maximum(block.counts[is_there], least)
    there.timestamps[at] = block.timestamps[is_there]
    return there


def threshold_of(spec: TableSpec) -> int:
    """Return the count of a new row: the table's access threshold, or 0 if the table has no threshold."""
    return 0 if spec.policies is None else max(spec.policies.access_threshold, 0)


def time_of(spec: TableSpec) -> int:
    """Return the timestamp of a new row: the time in the table's spec, or 0 if the spec contains no time.
    """
    return 0 if spec.policies is None else spec.policies.time
