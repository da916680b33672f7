"""What the kernels of ``ascpipe/kernels/hashing.py`` must compute."""

M = 2**64


def hash_key(key):
    """The finaliser of splitmix64, on Python's unbounded integers."""
    mixed = key % M
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % M
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % M
    return mixed ^ mixed >> 31


def owner_rank(key, ranks):
    return abs(key) % ranks
