"""What the kernels of ``ascpipe/kernels/hashing.py`` must compute."""

M = 2**64


def hash_key(key):
    """The finaliser of splitmix64, on Python's unbounded integers."""
    mixed = key % M
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % M
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % M
    return mixed ^ mixed >> 31


def home_cells(keys, bits):
    cells = []
    for key in keys:
        lower, upper = key % M % 2**32, key % M >> 32
        mixed = lower * 0x7FEB352D + upper * 0x68E31DA5
        mixed = (mixed ^ mixed >> 28) % 2**32 * 0x85EBCA6B % 2**32
        cells.append(mixed >> 32 - bits)
    return cells


def owner_rank(key, ranks):
    return abs(key) % ranks
