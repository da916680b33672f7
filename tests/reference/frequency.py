"""Expected result of the kernel of ``ascpipe/kernels/frequency.py``: the logarithm of a sum of decayed uses."""
import math


def next_frequency(score, now):
    if score == 0:
        return now
    upper, lower = max(score, now), min(score, now)
    return min(upper + round(64 * math.log2(1 + 2 ** ((lower - upper) / 64))), 2**31 - 1)
