"""`python -m bench.row_placement`: bytes that rows on disk cost to write, by how full their file is; simulated.

A quarter of the keys is in memory. A batch fetches what is not, which frees slots on the disk, and as many rows, all
of them changed, go back. Nothing is read or written: blocks are counted.
"""
import argparse
from typing import List, NamedTuple, Optional

import numpy as np

from ascpipe.kernels import disk_slots
from bench.disk_room import empty_room

BLOCK_BYTES = 4096
USES = (0.97, 0.94, 0.88, 0.79, 0.71, 0.60, 0.50, 0.38)  # of the slots


class Case(NamedTuple):
    """What is simulated.

    Attributes:
        per_block: slots of a block.
        row_bytes: of a row without its trailer.
        exponent: of the Zipf distribution of keys, 0 = uniform.
        keys, batch: how many there are in all, and drawn for a batch.
        warm, measured: batches before anything is counted, and then.
    """

    per_block: int
    row_bytes: int
    exponent: float
    keys: int = 400_000
    batch: int = 10_000
    warm: int = 150
    measured: int = 50


CASES = {"30 rows of 128 B a block": (30, 128), "7 rows of 512 B a block": (7, 512)}


class Simulated:
    """A table of which a quarter is in memory, and the rest in a row file.

    Args:
        case: what it is.
        use: share of the slots that are in use.
        seed: of the batches.
    """

    def __init__(self, case: Case, use: float, seed: int = 1) -> None:
        self._case = case
        self._random = np.random.RandomState(seed)
        self._in_memory = case.keys // 4
        on_disk = case.keys - self._in_memory
        self._room = empty_room(max(1, round(on_disk / use / case.per_block)), case.per_block)
        weights = np.arange(1, case.keys + 1, dtype=np.float64) ** -case.exponent
        self._cumulative = np.cumsum(weights / weights.sum())
        self._slots = np.full(case.keys, -1, np.int64)  # -1: in memory
        self._used = np.zeros(case.keys, np.int64)  # batch of the last use
        self._place(self._random.permutation(case.keys)[:on_disk])
        self._batches = 0

    def bytes_per_byte(self) -> float:
        """Bytes written per byte of a row that went to disk."""
        for _ in range(self._case.warm):
            self._batch()
        rows, blocks = np.array([self._batch() for _ in range(self._case.measured)]).sum(axis=0)
        return float(blocks * BLOCK_BYTES / (rows * self._case.row_bytes))

    def _batch(self) -> List[int]:
        """Rows and blocks that it wrote."""
        self._batches += 1
        drawn = np.searchsorted(self._cumulative, self._random.random_sample(self._case.batch))
        keys = np.unique(drawn.clip(max=self._case.keys - 1))
        self._used[keys] = self._batches
        fetched = keys[self._slots[keys] >= 0]
        freed = self._slots[fetched]
        disk_slots.free_disk_slots(self._room, freed)
        self._slots[fetched] = -1
        memory = np.flatnonzero(self._slots < 0)
        order = self._used[memory] + self._random.random_sample(memory.size)
        victims = memory[np.argpartition(order, fetched.size)[:fetched.size]]
        return [victims.size, self._place(victims)]

    def _place(self, keys: np.ndarray) -> int:
        """Put rows into the file; returns how many blocks that takes."""
        slots = np.zeros(keys.size, np.int64)
        alone = np.zeros(keys.size, np.uint8)
        if disk_slots.place_rows(self._room, slots, alone) != keys.size:
            raise ValueError("the file is too small for {} keys".format(self._case.keys))
        self._slots[keys] = slots
        return int(np.unique(slots // self._case.per_block).size)


def main(arguments: Optional[List[str]] = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.row_placement", description=__doc__.splitlines()[0])
    parser.parse_args(arguments)
    print("| slots in use | {} |".format(" | ".join("{:.0%}".format(use) for use in USES)))
    print("|---" * (len(USES) + 1) + "|")
    for name, (per_block, row_bytes) in CASES.items():
        for keys, exponent in (("uniform", 0.0), ("Zipf 1.05", 1.05)):
            case = Case(per_block, row_bytes, exponent)
            found = ["{:.1f}".format(Simulated(case, use).bytes_per_byte()) for use in USES]
            print("| {}, {} | {} |".format(name, keys, " | ".join(found)), flush=True)


if __name__ == "__main__":
    main()
