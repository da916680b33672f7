"""Frequency of a key: a score that is the logarithm of a decaying sum of uses. The score changes only when the key is
used.

A use at ticket u counts 2^(-(now - u) / 64) at ticket ``now``, so its weight is halved after 64 tickets. The score is
64 log2 of the sum of all uses, computed for ticket 0. So scores can be compared at any time. A key used once, at ticket
u, has score u. A key used in every ticket has a score of about 400 more than the number of the last ticket.

The plain-Python version is ``tests/reference/frequency.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner

HALF_LIFE = 64  #: number of tickets after which the weight of a use is halved
_FAR = 482  # if two scores differ by this or more, the lower score adds nothing
_GAINS = np.rint(HALF_LIFE * np.log2(1 + 2.0 ** (-np.arange(_FAR + 1) / HALF_LIFE))).astype(np.int32)
_MOST = 2**31 - 1


@inner("int32(int32, int32)")
def next_frequency(score, now):
    """Return the new score of a key that is used at ticket ``now``.

    The result is 64 log2(2^(score/64) + 2^(now/64)), rounded, and at most 2^31 - 1. If ``score`` is 0, the result is
    ``now``.

    Args:
        score: previous score. A key that was never used has 0.
        now: sequence number of the ticket, 0 or more. It may be lower than at an earlier use.
    """
    if score == 0:
        return np.int32(now)
    distance = abs(np.int64(score) - np.int64(now))
    gain = np.int64(_GAINS[np.uint64(min(distance, _FAR))])
    return np.int32(min(max(np.int64(score), np.int64(now)) + gain, _MOST))
