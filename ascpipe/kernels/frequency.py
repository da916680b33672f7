"""Scores how often a key is used. The score needs no upkeep: it is the logarithm of a decaying sum of uses.

A use at ticket u counts 2^(-(now - u) / 64) at ticket ``now``: after 64 tickets it has half its weight. The score is
64 log2 of the sum of all uses, as it would be at ticket 0. So scores can be compared at any time, and a score changes
only when its key is used. A key used once, at ticket u, has score u. A key used in every ticket has a score of about
400 more than the last ticket.

Plain-Python version: ``tests/reference/frequency.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner

HALF_LIFE = 64  #: tickets after which a use has half its weight
_FAR = 482  # if two scores differ by this or more, the lower one adds nothing
_GAINS = np.rint(HALF_LIFE * np.log2(1 + 2.0 ** (-np.arange(_FAR + 1) / HALF_LIFE))).astype(np.int32)
_MOST = 2**31 - 1


@inner("int32(int32, int32)")
def next_frequency(score, now):
    """Return the score of a key that is used at ticket ``now``: 64 log2(2^(score/64) + 2^(now/64)), rounded.

    Args:
        score: previous score, 0 if the key was never used.
        now: sequence number of the ticket, 0 or more; may be lower than at an earlier use.
    """
    if score == 0:
        return np.int32(now)
    distance = abs(np.int64(score) - np.int64(now))
    gain = np.int64(_GAINS[np.uint64(min(distance, _FAR))])
    return np.int32(min(max(np.int64(score), np.int64(now)) + gain, _MOST))
