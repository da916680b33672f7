"""What the kernels of ``ascpipe/kernels/frequency.py`` must compute: a sum of decayed uses, as a logarithm."""
import math


def next_frequency(score, now):
    if score == 0:
        return now
    upper, lower = max(score, now), min(score, now)
    return min(upper + round(64 * math.log2(1 + 2 ** ((lower - upper) / 64))), 2**31 - 1)
