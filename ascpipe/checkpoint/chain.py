"""Class ``Chain``, which reads a full checkpoint and its deltas as one checkpoint."""
import functools
from typing import Iterator, List, Optional, Sequence

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint, Kept, Pieces, Targets
from ascpipe.checkpoint.contents import INT_BYTES, TableSpec
from ascpipe.checkpoint.errors import DamagedCheckpointError
from ascpipe.checkpoint.keys import places
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.table_folders import candidate_pieces, count_pieces

MAX_DELTAS = 256  #: maximum per full checkpoint; each delta adds open files and one more read to a restore


class Chain(Checkpoint):
    """Full checkpoint and its deltas, called members of the chain. Each key is read from the newest member that
    contains the key.

    The newest member provides the specs and the position. The counts of rows and candidates cover all members.
    """

    def __init__(self, members: Sequence[Checkpoint]) -> None:
        """Merge verified checkpoints: a full checkpoint, then its deltas. Each checkpoint must be the parent of the
        next checkpoint.

        Raises:
            DamagedCheckpointError: the members have different tables.
        """
        newest = members[-1]
        super().__init__(newest._tree, newest.step, list(newest.tables.values()), newest.position,
                         newest.dense_prefix, newest._stamps)
        self.positions = newest.positions
        self.link = newest.link
        for member in members[:-1]:
            if [_form(spec) for spec in member.tables.values()] != [_form(spec) for spec in newest.tables.values()]:
                raise DamagedCheckpointError(newest.prefix, member.prefix,
                                             "its tables differ from the tables of the delta that is based on it")
        self._members = members
        self._tellers = {name: _Tellers(members[1:], name) for name in newest.tables}
        for name, spec in newest.tables.items():
            rows, candidates = (sum(len(arrays[0]) for arrays in self.arrays(name, pieces_of))
                                for pieces_of in (count_pieces, candidate_pieces))
            self.tables[name] = spec._replace(rows=rows, candidates=candidates, deleted=0)

    def arrays(self, table: str, pieces_of: Pieces, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None,
               targets: Optional[Targets] = None, kept: Optional[Kept] = None) -> Iterator[List[np.ndarray]]:
        """Yield blocks of keys, as in ``Checkpoint``. ``targets`` is ignored, since the row count of a block is not
        known in advance.
        """
        for number, member in enumerate(self._members):
            told = functools.partial(self._tellers[table].tells, number, kept=kept)
            yield from member.arrays(table, pieces_of, rank, ranks, block_rows, kept=told)

    def deleted(self, table: str) -> np.ndarray:
        """Return an empty array, because the merged checkpoint is a full checkpoint."""
        return np.empty(0, np.int64)

    def pool(self, table: str) -> Optional[np.ndarray]:
        """Return the pool of initial rows, as in ``Checkpoint``."""
        return self._members[-1].pool(table)

    def close(self) -> None:
        """Close all files of the chain's checkpoints. Further calls do nothing."""
        for member in self._members:
            member.close()


class _Tellers:
    """Map from each key in a table's deltas to the number of the newest delta that contains the key.

    The full checkpoint has number 0. Keys that only the full checkpoint contains are not in the map.
    """

    def __init__(self, deltas: Sequence[Checkpoint], table: str) -> None:
        count = sum(spec.rows + spec.candidates + spec.deleted for spec in (delta.tables[table] for delta in deltas))
        with memory_for(deltas[-1].prefix, "the keys of table {!r} in its deltas".format(table), 7 * INT_BYTES * count):
            self._find(deltas, table)

    def _find(self, deltas: Sequence[Checkpoint], table: str) -> None:
        told = [np.concatenate([*(block.keys for block in delta.counts(table)), delta.deleted(table)])
                for delta in deltas]
        keys = np.concatenate(told)
        order = np.argsort(keys, kind="stable")  # stable: among equal keys, the key of the newest delta is last
        keys = keys[order]
        newest = np.append(keys[1:] != keys[:-1], True)[:len(keys)]
        self._keys = keys[newest]
        self._members = np.repeat(np.arange(1, len(told) + 1), [len(some) for some in told])[order][newest]

    def tells(self, number: int, keys: np.ndarray, kept: Optional[Kept]) -> np.ndarray:
        """Return bool[n]: True for each key of member ``number`` that no newer member contains.

        Args:
            kept: function that selects keys. The result is False for all other keys.
        """
        place, is_there = places(self._keys, keys)
        told = ~is_there
        told[is_there] = self._members[place[is_there]] == number
        if kept is not None:
            told[told] = kept(keys[told])
        return told


def _form(spec: TableSpec) -> TableSpec:
    """Return the spec without the fields that may differ between the checkpoints of a chain."""
    return spec._replace(rows=0, candidates=0, deleted=0, initial=None, policies=None, column=None)
