"""Misses of other policies on a trace of batches. The module is plain Python and uses no code of the planner.

The distinct keys of a batch must all be on the device at the same time. The batch's misses are its keys that are not
on the device. Other keys leave if the device is full. A policy assigns a worth to a key at each use, and the key of
least worth leaves first:

* LRU: the number of the batch that used the key last.
* LFU: the number of uses. The weight of a use halves every 64 batches.
* Belady's optimum: the distance to the next use. This policy needs the whole trace.
"""
import heapq
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

HALF_LIFE = 64

Batches = Sequence[Sequence[int]]
#: (number of the batch, position of the key in the batch, key) -> worth
Worth = Callable[[int, int, int], float]


class Misses(NamedTuple):
    """Misses of a whole trace.

    Attributes:
        all: number of keys that were not on the device when a batch needed them.
        refetches: number of the misses whose keys had been used before.
    """

    all: int
    refetches: int


def lru(batches: Batches, device_rows: int) -> Misses:
    """Return the misses if the least recently used key leaves first."""
    return replay(batches, device_rows, lru_worth())


def lfu(batches: Batches, device_rows: int) -> Misses:
    """Return the misses if the least frequently used key leaves first. The weight of a use decays."""
    return replay(batches, device_rows, lfu_worth())


def belady(batches: Batches, device_rows: int) -> Misses:
    """Return the misses if the key with the farthest next use leaves first. No policy has fewer misses."""
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
    """Return the logarithm (base 2) of the weighted sum of all uses, as a multiple of 1/64. Weights are
    relative to batch 0.
    """
    return now if score is None else now + HALF_LIFE * math.log2(1 + 2 ** ((score - now) / HALF_LIFE))


def belady_worth(batches: Batches) -> Worth:
    following = next_uses(batches)
    return lambda now, place, key: -following[now][place]


def next_uses(batches: Batches) -> List[List[int]]:
    """Return, for each key of each batch, the number of the next batch that uses the key. Without a next use the number
    is the number of batches.
    """
    seen: Dict[int, int] = {}
    answer: List[List[int]] = []
    for now in range(len(batches) - 1, -1, -1):
        answer.append([seen.get(key, len(batches)) for key in batches[now]])
        seen.update((key, now) for key in batches[now])
    return answer[::-1]


def replay(batches: Batches, device_rows: int, worth: Worth) -> Misses:
    """Replay a trace. Each batch is a sequence of at most ``device_rows`` distinct keys."""
    on_device: Dict[int, float] = {}
    leaving: List[Tuple[float, int]] = []  # heap of (worth, key); an entry is outdated if ``on_device`` differs
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
