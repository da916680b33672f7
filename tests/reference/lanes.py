"""What ``ascpipe/kernels/lanes.py`` must compute; ``keys`` are those of a line."""


def match_keys(keys, key):
    return sum(1 << lane for lane, other in enumerate(keys) if other == key)
