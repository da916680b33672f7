"""Second level of `python -m bench cache`: the choice of home rows that move to the disk. The module is plain Python.

Only some keys have home rows. The rows of the other keys are on disk. A row on the device keeps its home row. The
rule (``rank``, ``replay``) is described in docs/internals/adr/0045-rows-on-disk.md.

All policies get the same moves between the device and the home rows. LRU, LFU and Belady's optimum have simpler
conditions than the rule: they fetch a row when its batch is planned, and a row that leaves the device may move to
the disk immediately.
"""
import heapq
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from bench.cache_policies import Batches, Worth, score_after_use
from bench.planner import PLAN_AHEAD

Rank = Tuple[bool, float, int]


class Step(NamedTuple):
    """Moves of one batch on the device: keys that enter, and keys that leave. The keys that leave are not in
    the batch.
    """

    ins: Sequence[int]
    outs: Sequence[int]


class Traffic(NamedTuple):
    """Result of a whole trace.

    Attributes:
        misses: number of keys without a home row when their batch needed one.
        fetches: number of the misses whose rows were on disk. The other misses were new keys.
        spills: number of rows that moved to the disk.
        near_mean: mean number of batches, after the planned batch, whose rows were fetched or had home rows.
        waits: number of batches that waited for an earlier batch to retire, because home rows were missing.
    """

    misses: int
    fetches: int
    spills: int
    near_mean: float = 0
    waits: int = 0


def rank(score: float, next_use: Optional[int], key: int) -> Rank:
    """Return the rank of a row. The row with the smallest rank moves to the disk first.

    Candidates are home rows that are not on the device and that no near batch uses.

    Args:
        score: score of the key's uses.
        next_use: next batch of the window that uses the key, or None.
        key: decides between rows that are otherwise equal.
    """
    return (False, score, key) if next_use is None else (True, -next_use, key)


def replay(batches: Batches, steps: Sequence[Step], home_rows: int, window: int, fetch_ahead: int) -> Traffic:
    """Replay a trace with the rule.

    If the window is the whole trace, no rule with the same ``fetch_ahead`` has fewer misses.

    Args:
        batches: distinct keys of each batch.
        steps: moves of each batch.
        home_rows: number of home rows, at least the number of device rows and the number of keys of any batch.
        window: number of known batches after the planned batch.
        fetch_ahead: number of these batches whose rows are fetched, if home rows are free.
    """
    home = _Home(batches, home_rows, window)
    last = len(batches) - 1
    near_sum = waits = retired = 0
    for number, step in enumerate(steps):
        home.planning = number
        waited = False
        while True:
            while home.near <= min(number + fetch_ahead, last) and home.make_near():
                pass
            if home.near > number:
                break
            home.retire(retired, steps[retired].outs)
            retired += 1
            waited = True
        waits += waited
        near_sum += home.near - 1 - number
        home.keep(step.ins)
        while retired <= number - PLAN_AHEAD:
            home.retire(retired, steps[retired].outs)
            retired += 1
    return Traffic(home.misses, home.fetches, home.spills, near_sum / len(batches), waits)


class _Home:
    """Home rows.

    A row is held once for each near batch that uses the row, and once while the row is on the device. Other rows can
    move to the disk.
    """

    def __init__(self, batches: Batches, rows: int, window: int) -> None:
        self._batches = batches
        self._rows = rows
        self._window = window
        self._uses: Dict[int, List[int]] = {}
        for number in range(len(batches) - 1, -1, -1):
            for key in batches[number]:
                self._uses.setdefault(key, []).append(number)  # the next use is the last element
        self._kept: Dict[int, int] = {}
        self._at_home: Set[int] = set()
        self._scores: Dict[int, float] = {}
        self._ranks: Dict[int, Rank] = {}
        self._leaving: List[Rank] = []  # heap; an entry is outdated if ``_ranks`` has another value
        self.planning = 0  #: batch that is planned
        self.near = 0  #: first batch whose rows are not fetched
        self.misses = self.fetches = self.spills = 0

    def make_near(self) -> bool:
        """Fetch the rows of the next batch. Return False if there are too few free home rows."""
        keys = self._batches[self.near]
        if len(self._kept) + sum(key not in self._kept for key in keys) > self._rows:
            return False
        self.keep(keys)
        for key in keys:
            self._uses[key].pop()
        absent = [key for key in keys if key not in self._at_home]
        self._spill(len(self._at_home) + len(absent) - self._rows)
        self._at_home.update(absent)
        self.misses += len(absent)
        self.fetches += sum(key in self._ranks for key in absent)  # a key with a rank was seen before
        self.near += 1
        return True

    def keep(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._kept[key] = self._kept.get(key, 0) + 1

    def retire(self, number: int, outs: Sequence[int]) -> None:
        """Retire a trained batch. The rows that left the device for this batch are now home rows only."""
        for key in self._batches[number]:
            self._scores[key] = score_after_use(self._scores.get(key), number)
        for keys in (outs, self._batches[number]):
            for key in keys:
                self._kept[key] -= 1
                if not self._kept[key]:
                    del self._kept[key]
                    self._put(key)

    def _put(self, key: int) -> None:
        self._ranks[key] = self._rank(key)
        heapq.heappush(self._leaving, self._ranks[key])

    def _rank(self, key: int) -> Rank:
        uses = self._uses[key]
        known = uses and uses[-1] <= self.planning + self._window
        return rank(self._scores[key], uses[-1] if known else None, key)

    def _spill(self, count: int) -> None:
        while count > 0:
            least = heapq.heappop(self._leaving)
            key = least[-1]
            if self._ranks[key] != least or key in self._kept or key not in self._at_home:
                continue
            if self._rank(key) != least:  # a new batch uses the row, so its rank has changed
                self._put(key)
                continue
            self._at_home.remove(key)
            self.spills += 1
            count -= 1


def replay_worth(batches: Batches, steps: Sequence[Step], home_rows: int, worth: Worth) -> Traffic:
    """Replay a trace, and move the row of least worth to the disk, as in ``cache_policies``.

    The arguments are the same as in ``replay``.

    With Belady's worth, no policy has fewer fetches for these steps.
    """
    worths: Dict[int, float] = {}
    at_home: Dict[int, float] = {}  # worth of the rows that can leave
    leaving: List[Tuple[float, int]] = []  # heap; an entry is outdated if ``at_home`` has another value
    on_device: Set[int] = set()
    used: Set[int] = set()
    misses = fetches = spills = 0
    for now, (keys, step) in enumerate(zip(batches, steps)):
        for key in step.ins:
            if at_home.pop(key, None) is None:
                misses += 1
                fetches += key in used
        used.update(step.ins)
        on_device.update(step.ins)
        while len(at_home) + len(on_device) > home_rows:
            least, key = heapq.heappop(leaving)
            if at_home.get(key) == least:
                del at_home[key]
                spills += 1
        for place, key in enumerate(keys):
            worths[key] = worth(now, place, key)
        for key in step.outs:
            on_device.remove(key)
            at_home[key] = worths[key]
            heapq.heappush(leaving, (worths[key], key))
    return Traffic(misses, fetches, spills)
