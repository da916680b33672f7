"""Simulated bytes written per byte of a row on disk, by the share of slots in use: `python -m bench.row_placement`.

A quarter of the keys is in memory. A batch fetches its other keys, which frees slots on the disk. Then an equal number
of changed rows moves to the disk. The simulation counts blocks, and reads and writes no files.
"""
import argparse
from typing import List, NamedTuple, Optional

import numpy as np

from ascpipe.kernels import disk_slots
from bench.disk_room import empty_room

BLOCK_BYTES = 4096
USES = (0.97, 0.94, 0.88, 0.79, 0.71, 0.60, 0.50, 0.38)  # shares of the slots in use


class Case(NamedTuple):
    """Case of the simulation.

    Attributes:
        per_block: slots of a block.
        row_bytes: bytes of a row without its trailer.
        exponent: exponent of the Zipf distribution of keys. 0 is uniform.
        keys, batch: number of all keys, and of the keys that are drawn for a batch.
        warm, measured: number of warm-up batches, and of measured batches.
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
    """Table with a quarter of its keys in memory. The other keys are in a row file.

    Args:
        case: case of the simulation.
        use: share of the slots that are in use.
        seed: seed of the batches.
    """

    def __init__(self, case: Case, use: float, seed: int = 1) -> None:
        self._case = case
        self._random = np.random.RandomState(seed)
        self._in_memory = case.keys // 4
        on_disk = case.keys - self._in_memory
        self._room = empty_room(max(1, round(on_disk / use / case.per_block)), case.per_block)
        weights = np.arange(1, case.keys + 1, dtype=np.float64) ** -case.exponent
        self._cumulative = np.cumsum(weights / weights.sum())
        self._slots = np.full(case.keys, -1, np.int64)  # -1 = in memory
        self._used = np.zeros(case.keys, np.int64)  # number of the batch that used the key last
        self._place(self._random.permutation(case.keys)[:on_disk])
        self._batches = 0

    def bytes_per_byte(self) -> float:
        """Return the bytes written per byte of a row that moved to the disk."""
        for _ in range(self._case.warm):
            self._batch()
        rows, blocks = np.array([self._batch() for _ in range(self._case.measured)]).sum(axis=0)
        return float(blocks * BLOCK_BYTES / (rows * self._case.row_bytes))

    def _batch(self) -> List[int]:
        """Simulate a batch, and return the number of rows and blocks that it writes."""
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
        """Write rows to the file, and return the number of blocks that are written."""
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
