"""Expected result of the kernel of ``ascpipe/kernels/lanes.py``; ``keys`` are the keys of a line."""


def match_keys(keys, key):
    return sum(1 << lane for lane, other in enumerate(keys) if other == key)
