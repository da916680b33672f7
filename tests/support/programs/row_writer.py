"""Writes all rows of a file again and again, until it is killed.

Arguments: descriptor of the file, its directory, bytes of a row, rows, the generation that they have.
A row of generation g lies in slot 2 key + g % 2, so that the one before it stands while it is written, in the same
block.  A line on the output says which generation is written in full.
"""
import sys

import numpy as np

from ascpipe.disk.row_engine import RowEngine
from tests.support.row_files import MemoryRows


def slots_of(keys, generation):
    """int64[n]; where rows of a generation lie."""
    return 2 * keys + generation % 2


def main(fd, directory, row_bytes, n, generation):
    engine = RowEngine(4)
    file = engine.adopt(fd, directory, row_bytes)
    keys = np.random.RandomState(generation).permutation(n).astype(np.int64)
    while True:
        generation += 1
        for some in np.array_split(keys, 8):
            if MemoryRows(row_bytes, slots_of(some, generation), some, generation).write(engine, file).any():
                raise OSError("rows were not written")
        sys.stdout.write("{}\n".format(generation))
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
