"""The second level of `python -m bench cache`: which rows at home leave for the disk; plain Python.

There are home rows for some of the keys only, and the rest lies on disk. A row on the device keeps its home row. The
rule (``rank``, ``replay``) is that of docs/internals/adr/0045-rows-on-disk.md. It takes the device as it is: what
moves between device and home is known before. So do the others, LRU, LFU and Belady's optimum, which have it easier:
they fetch a row in the moment in which its batch is planned, and what leaves the device may leave for the disk at
once.
"""
import heapq
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from bench.cache_policies import Batches, Worth, score_after_use
from bench.planner import PLAN_AHEAD

Rank = Tuple[bool, float, int]


class Step(NamedTuple):
    """One batch on the device: keys that move in, keys that leave for them; none of these is the batch's."""

    ins: Sequence[int]
    outs: Sequence[int]


class Traffic(NamedTuple):
    """A whole trace.

    Attributes:
        misses: keys that had no home row when their batch needed one.
        fetches: those of them whose rows came from disk; the others were new.
        spills: rows that left for the disk.
        near_mean: batches after the one being planned whose rows were at home or on their way; the mean.
        waits: batches that could only be planned when an earlier one was retired, for lack of home rows.
    """

    misses: int
    fetches: int
    spills: int
    near_mean: float = 0
    waits: int = 0


def rank(score: float, next_use: Optional[int], key: int) -> Rank:
    """Where a row comes in the order in which rows leave: the least one leaves first.

    Candidates are rows at home that are not on the device and that no near batch uses.

    Args:
        score: of the key's uses.
        next_use: the next batch of the window that uses it; None for none.
        key: decides between equal ones.
    """
    return (False, score, key) if next_use is None else (True, -next_use, key)


def replay(batches: Batches, steps: Sequence[Step], home_rows: int, window: int, fetch_ahead: int) -> Traffic:
    """Run a trace by the rule.

    With the whole trace as its window no rule misses fewer that fetches as far ahead.

    Args:
        batches: distinct keys of each.
        steps: what each moves.
        home_rows: at least as many as the device has, and the keys of a batch.
        window: batches after the one being planned that are known.
        fetch_ahead: those of them whose rows are fetched, as far as there is room.
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

    A row is kept once for each near batch that uses it, and once while it is on the device; the others can leave.
    """

    def __init__(self, batches: Batches, rows: int, window: int) -> None:
        self._batches = batches
        self._rows = rows
        self._window = window
        self._uses: Dict[int, List[int]] = {}
        for number in range(len(batches) - 1, -1, -1):
            for key in batches[number]:
                self._uses.setdefault(key, []).append(number)  # the next one last
        self._kept: Dict[int, int] = {}
        self._at_home: Set[int] = set()
        self._scores: Dict[int, float] = {}
        self._ranks: Dict[int, Rank] = {}
        self._leaving: List[Rank] = []  # a heap; out of date where ``_ranks`` says otherwise
        self.planning = 0  #: the batch being planned
        self.near = 0  #: the next batch whose rows are to be fetched
        self.misses = self.fetches = self.spills = 0

    def make_near(self) -> bool:
        """Fetch what the next batch needs; False if there is no room for it."""
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
        self.fetches += sum(key in self._ranks for key in absent)  # it was a candidate, so it has been here
        self.near += 1
        return True

    def keep(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._kept[key] = self._kept.get(key, 0) + 1

    def retire(self, number: int, outs: Sequence[int]) -> None:
        """Go on when a batch is trained, and the rows that left the device for it are at home."""
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
            if self._rank(key) != least:  # a batch that uses it has become known: it leaves later
                self._put(key)
                continue
            self._at_home.remove(key)
            self.spills += 1
            count -= 1


def replay_worth(batches: Batches, steps: Sequence[Step], home_rows: int, worth: Worth) -> Traffic:
    """Run a trace where the row of least worth leaves, as in ``cache_policies``; arguments as in ``replay``.

    With Belady's worth no policy fetches fewer, given these steps.
    """
    worths: Dict[int, float] = {}
    at_home: Dict[int, float] = {}  # worth of those that can leave
    leaving: List[Tuple[float, int]] = []  # a heap; out of date where ``at_home`` says otherwise
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
