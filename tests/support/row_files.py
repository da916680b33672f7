"""Rows in memory for tests of row files: their bytes follow from key and generation."""
import numpy as np

from ascpipe.disk.row_engine import Rows

LIMIT_S = 60.0


def content(keys, generations, row_bytes):
    """uint8[n, row_bytes]"""
    mixed = np.asarray(keys, np.int64)[:, None] * 31 + np.asarray(generations, np.int64)[:, None] * 7
    return (mixed + np.arange(row_bytes) * 13 + 1).astype(np.uint8)


class MemoryRows:
    """Rows of a batch, and where they come from or go to.

    Args:
        slots, keys: sequences of equal length.
        generation: one number, or one of each row.
    """

    def __init__(self, row_bytes, slots, keys, generation, alone=None):
        n = len(slots)
        self.keys, self.row_bytes = np.array(keys, np.int64), row_bytes
        self.generations = np.broadcast_to(np.asarray(generation, np.uint32), (n,)).copy()
        self.memory = np.zeros((n, row_bytes), np.uint8)
        addresses = self.memory.ctypes.data + row_bytes * np.arange(n, dtype=np.uint64)
        self.rows = Rows(np.array(slots, np.int64), self.keys, self.generations, addresses.astype(np.uint64), alone)

    def write(self, engine, file):
        """The result of each row."""
        self.memory[:] = content(self.keys, self.generations, self.row_bytes)
        return self._carry_out(engine.write(file, self.rows))

    def read(self, engine, file):
        """The result of each row, of which those that are good have been compared."""
        self.memory[:] = 0xEE
        results = self._carry_out(engine.read(file, self.rows))
        wanted = content(self.keys, self.generations, self.row_bytes)
        wanted[results != 0] = 0xEE  # what is not the row goes nowhere
        assert (self.memory == wanted).all()
        return results

    @staticmethod
    def _carry_out(batch):
        assert batch.wait(LIMIT_S)
        return batch.results
