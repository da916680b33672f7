"""Plays the disk worker of a ``TwinTable``, for the table and for its twin."""
import numpy as np

from ascpipe.kernels import disk_asks
from ascpipe.layout.words import REQUEST_DONE, REQUEST_FAILED, REQUEST_READ, REQUEST_TAKEN
from tests.reference import disk_asks as twins


class DiskWorker:
    """Takes requests and ends them.

    Attributes:
        taken: numbers of the requests that it is at.
    """

    def __init__(self, pair):
        self._pair, self.taken = pair, []

    def step(self, choice, *, fails=False):
        """Take up to ``choice`` + 1 requests of each kind, and end one that it is at; ``fails``: if it is a write."""
        pair, segment = self._pair, self._pair.segment
        reads, writes = np.zeros((2, choice + 1), np.int64)
        counts = disk_asks.take_asked(segment.disk_table, segment.asks, segment.requests, reads, writes)
        expected = twins.take_asked(pair.twin.tier, choice + 1)
        assert (reads[:counts[0]].tolist(), writes[:counts[1]].tolist()) == expected
        self.taken += expected[0] + expected[1]
        if self.taken:
            home = self.taken.pop(choice % len(self.taken))
            request = pair.twin.tier.requests[home]
            assert request.word == REQUEST_TAKEN
            self.end(home, 5 if fails and request.kind != REQUEST_READ else 0)

    def end(self, home, error):
        """Store how a request ended; error: an errno or a damage, 0 = none."""
        word, twin = REQUEST_FAILED if error else REQUEST_DONE, self._pair.twin.tier.requests[home]
        request = self._pair.segment.requests[home]
        request["word"] = twin.word = word
        request["error"] = twin.error = error

    def die(self, choice):
        """Die; the successor takes again what was asked, ``choice`` + 1 requests of each kind at a time."""
        tier, segment, begin, self.taken = self._pair.twin.tier, self._pair.segment, 0, []
        while begin < tier.home_rows:
            reads, writes = np.zeros((2, choice + 1), np.int64)
            found = disk_asks.repeat_requests(segment.requests, begin, tier.home_rows, reads, writes)
            expected = twins.repeat_requests(tier, begin, tier.home_rows, choice + 1)
            assert (reads[:found[0]].tolist(), writes[:found[1]].tolist(), found[2]) == expected
            self.taken += expected[0] + expected[1]
            begin = expected[2]
        segment.disk_table["taken"] = segment.disk_table["asked"]
        tier.taken = len(tier.asks)
