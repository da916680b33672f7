"""Deltas: a full checkpoint and those that stand upon it, one upon the other, read as one checkpoint."""
from typing import Iterator, List, Optional, Sequence

import numpy as np

from ascpipe.checkpoint.block_reader import Checkpoint, Pieces, Targets
from ascpipe.checkpoint.contents import INT_BYTES, TableSpec
from ascpipe.checkpoint.errors import DamagedCheckpointError
from ascpipe.checkpoint.keys import places
from ascpipe.checkpoint.memory_room import memory_for
from ascpipe.checkpoint.table_folders import candidate_pieces, count_pieces

MAX_DELTAS = 256  #: that stand upon one full checkpoint; each one is a few open files, and one more read of a restore


class Chain(Checkpoint):
    """A full checkpoint and the deltas upon it: of a key, the newest that tells of it says what it is.

    Specs and position are those of the newest, with the numbers of rows and candidates of all together.
    """

    def __init__(self, members: Sequence[Checkpoint]) -> None:
        """Take verified checkpoints, each one the parent of the next.

        Raises:
            DamagedCheckpointError: their tables are not the same.
        """
        newest = members[-1]
        super().__init__(newest._tree, newest.step, list(newest.tables.values()), newest.position,
                         newest.dense_prefix, newest._stamps)
        self.positions = newest.positions
        for member in members[:-1]:
            if [_form(spec) for spec in member.tables.values()] != [_form(spec) for spec in newest.tables.values()]:
                raise DamagedCheckpointError(newest.prefix, member.prefix, "it has other tables than what stands upon "
                                                                           "it")
        self._members = members
        self._tellers = {name: _Tellers(members[1:], name) for name in newest.tables}
        for name, spec in newest.tables.items():
            rows, candidates = (sum(len(arrays[0]) for arrays in self.arrays(name, pieces_of))
                                for pieces_of in (count_pieces, candidate_pieces))
            self.tables[name] = spec._replace(rows=rows, candidates=candidates, deleted=0)

    def arrays(self, table: str, pieces_of: Pieces, rank: int = 0, ranks: int = 1, block_rows: Optional[int] = None,
               targets: Optional[Targets] = None) -> Iterator[List[np.ndarray]]:
        """As of a Checkpoint; ``targets`` are not used, for how many rows a member gives is not known before."""
        for number, member in enumerate(self._members):
            for arrays in member.arrays(table, pieces_of, rank, ranks, block_rows):
                told = self._tellers[table].tells(number, arrays[0])
                if told.all():
                    yield arrays
                elif told.any():
                    yield [values[told] for values in arrays]

    def deleted(self, table: str) -> np.ndarray:
        """None: the checkpoint that they make together is a full one."""
        return np.empty(0, np.int64)

    def pool(self, table: str) -> Optional[np.ndarray]:
        """As of a Checkpoint."""
        return self._members[-1].pool(table)

    def close(self) -> None:
        """Give back the descriptors. May be called twice."""
        for member in self._members:
            member.close()


class _Tellers:
    """Which member of a chain is the newest that tells of a key of a table: number 0 is the full checkpoint."""

    def __init__(self, deltas: Sequence[Checkpoint], table: str) -> None:
        count = sum(spec.rows + spec.candidates + spec.deleted for spec in (delta.tables[table] for delta in deltas))
        with memory_for(deltas[-1].prefix, "the keys of table {!r} in its deltas".format(table), 7 * INT_BYTES * count):
            self._find(deltas, table)

    def _find(self, deltas: Sequence[Checkpoint], table: str) -> None:
        told = [np.concatenate([*(block.keys for block in delta.counts(table)), delta.deleted(table)])
                for delta in deltas]
        keys = np.concatenate(told)
        order = np.argsort(keys, kind="stable")  # of equal keys, the newest comes last
        keys = keys[order]
        newest = np.append(keys[1:] != keys[:-1], True)[:len(keys)]
        self._keys = keys[newest]
        self._members = np.repeat(np.arange(1, len(told) + 1), [len(some) for some in told])[order][newest]

    def tells(self, number: int, keys: np.ndarray) -> np.ndarray:
        """bool[n]: of keys that a member has, whether no newer one tells of them."""
        place, is_there = places(self._keys, keys)
        told = ~is_there
        told[is_there] = self._members[place[is_there]] == number
        return told


def _form(spec: TableSpec) -> TableSpec:
    """What of a table never changes from one delta to the next."""
    return spec._replace(rows=0, candidates=0, deleted=0, initial=None, policies=None)
