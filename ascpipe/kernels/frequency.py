"""Scores how often a key is used, as one number that needs no upkeep: the logarithm of a decaying sum of uses.

A use at ticket u counts 2^(-(now - u) / 64) at ticket ``now``: it has lost half its weight after 64 tickets.
The score is 64 log2 of the sum of all uses, as it would be at ticket 0; so it orders keys at any time and changes only
when a key is used.  A key used once, at ticket u, has score u; one used in every ticket has a score of about 400 above
the last.

The readable version is ``tests/reference/frequency.py``.
"""
import numpy as np

from ascpipe.kernels.door import inner

HALF_LIFE = 64  #: tickets after which a use has half its weight
_FAR = 482  # from this distance on the lower of two scores adds nothing
_GAINS = np.rint(HALF_LIFE * np.log2(1 + 2.0 ** (-np.arange(_FAR + 1) / HALF_LIFE))).astype(np.int32)
_MOST = 2**31 - 1


@inner("int32(int32, int32)")
def next_frequency(score, now):
    """Score of a key that is used at ticket ``now``; the plain formula is 64 log2(2^(score/64) + 2^(now/64)).

    Args:
        score: its score so far, 0 if it was never used.
        now: sequence number of the ticket, 0 or more; it may lie below that of an earlier use.
    """
    if score == 0:
        return np.int32(now)
    distance = abs(np.int64(score) - np.int64(now))
    gain = np.int64(_GAINS[np.uint64(min(distance, _FAR))])
    return np.int32(min(max(np.int64(score), np.int64(now)) + gain, _MOST))
