"""What other policies would miss on a trace of batches: plain Python, no kernel, nothing of the planner.

A batch's distinct keys must all be on the device at once. Those that are not there are its misses; when there is
no room for them others leave, never the batch's own. Every policy here gives a key a worth when it is used, and
the key of least worth leaves first:

* LRU: the batch that used it last;
* LFU: how often it was used, where a use has half its weight after 64 batches;
* Belady's optimum: how soon it is used again, which needs the whole future.
"""
import heapq
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

HALF_LIFE = 64

Batches = Sequence[Sequence[int]]
#: (number of the batch, place of the key in it, key) -> worth
Worth = Callable[[int, int, int], float]


class Misses(NamedTuple):
    """Misses of a whole trace.

    Attributes:
        all: keys that were not on the device when a batch needed them.
        refetches: those of them that had been used before.
    """

    all: int
    refetches: int


def lru(batches: Batches, device_rows: int) -> Misses:
    """Misses when the least recently used key leaves first."""
    return replay(batches, device_rows, lru_worth())


def lfu(batches: Batches, device_rows: int) -> Misses:
    """Misses when the least frequently used key leaves first; use decays."""
    return replay(batches, device_rows, lfu_worth())


def belady(batches: Batches, device_rows: int) -> Misses:
    """Misses when the key leaves first whose next use is farthest: no policy misses fewer."""
    return replay(batches, device_rows, belady_worth(batches))


def lru_worth() -> Worth:
    return lambda now, place, key: now


def lfu_worth() -> Worth:
    scores: Dict[int, float] = {}

    def worth(now: int, place: int, key: int) -> float:
        scores[key] = score_after_use(scores.get(key), now)
        return scores[key]

    return worth


def score_after_use(score: Optional[float], now: int) -> float:
    """log2 of the sum of all uses, each counted as it would be at batch 0, in steps of a 64th."""
    return now if score is None else now + HALF_LIFE * math.log2(1 + 2 ** ((score - now) / HALF_LIFE))


def belady_worth(batches: Batches) -> Worth:
    following = next_uses(batches)
    return lambda now, place, key: -following[now][place]


def next_uses(batches: Batches) -> List[List[int]]:
    """For each key of each batch the number of the next batch that uses it, or how many batches there are."""
    seen: Dict[int, int] = {}
    answer: List[List[int]] = []
    for now in range(len(batches) - 1, -1, -1):
        answer.append([seen.get(key, len(batches)) for key in batches[now]])
        seen.update((key, now) for key in batches[now])
    return answer[::-1]


def replay(batches: Batches, device_rows: int, worth: Worth) -> Misses:
    """Run a trace; each batch is a sequence of distinct keys, at most ``device_rows`` of them."""
    on_device: Dict[int, float] = {}
    leaving: List[Tuple[float, int]] = []  # a heap; (worth, key), out of date where ``on_device`` says otherwise
    used = set()
    misses = 0
    for now, keys in enumerate(batches):
        own = set(keys)
        absent = [key for key in keys if key not in on_device]
        misses += len(absent)
        used.update(absent)
        too_many = len(on_device) + len(absent) - device_rows
        while too_many > 0:
            least, key = heapq.heappop(leaving)
            if on_device.get(key) == least and key not in own:
                del on_device[key]
                too_many -= 1
        for place, key in enumerate(keys):
            on_device[key] = worth(now, place, key)
            heapq.heappush(leaving, (on_device[key], key))
    return Misses(misses, misses - len(used))
