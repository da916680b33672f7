"""Which faults happen, and when: pure decisions out of a seed.

The daemon gives up a worker that ends more than five times in 60 s (`ascpipe/daemon/lifecycle.py`). The limit stays as
users have it; ``Pace`` keeps below it.
"""
import collections
import random
from typing import Deque, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ascpipe.daemon.lifecycle import RESTARTS, WINDOW_S
from ascpipe.daemon.worker_identity import DISK, KEY, TABLE

KILL, STALL, STOP, MESSAGES = "kill", "stall", "stop", "messages"
TEMPLATE = "template"
ROLES = (KEY, TABLE, DISK, TEMPLATE)

DEATHS, WITHIN_S = RESTARTS - 1, WINDOW_S + 5.0  #: one death may be of another cause; clocks are not read together
LEAST_STALL_S, MOST_STALL_S = 0.01, 1.5
MESSAGES_AT_ONCE = (200, 2000)

#: (what, roles), dealt again and again, shuffled
_DEADLY = ((KILL, (KEY,)), (KILL, (TABLE,)), (KILL, (DISK,)), (KILL, (TEMPLATE,)), (KILL, (KEY, TABLE, DISK)),
           (KILL, (TEMPLATE, TABLE)))
_MILD = ((STALL, (KEY,)), (STALL, (TABLE,)), (STALL, (DISK,)), (STALL, (TEMPLATE,)), (STALL, (KEY, TABLE, DISK)),
         (MESSAGES, ()), (MESSAGES, ()))
_STOPPED = (TABLE, KEY, DISK, TEMPLATE, TABLE)  # in turn
CALM_EVERY, CALM_DECKS = 4, 3  #: each fourth round has three decks and no deaths, so that there are older workers


class Fault(NamedTuple):
    """Something that happens to processes.

    Attributes:
        after_s: since the fault before.
        what: KILL, STALL: stopped, and let go on after ``for_s``; STOP: stopped until the daemon replaces it;
            MESSAGES: malformed ones to the control socket.
        roles: of the processes, one of each.
        which: in [0, 1): which one, where there are several of a role.
        for_s: of a stall.
        messages: how many.
        seed: of messages.
    """

    after_s: float
    what: str
    roles: Tuple[str, ...]
    which: float
    for_s: float
    messages: int
    seed: int


def faults(seed: int, mean_s: float) -> Iterator[Fault]:
    """Without end.

    Args:
        seed: of everything.
        mean_s: seconds between two faults, on average.
    """
    dice = random.Random(seed)
    number = 0
    while True:
        is_calm = number % CALM_EVERY == CALM_EVERY - 1
        deck: List[Tuple[str, Tuple[str, ...]]] = [*_MILD] * (CALM_DECKS if is_calm else 1)
        if not is_calm:
            deck += [*_DEADLY, (STOP, (_STOPPED[number % len(_STOPPED)],))]
        for what, roles in dice.sample(deck, len(deck)):
            # half of the stalls are short: those that last as long as a step or two
            stall_s = dice.uniform(LEAST_STALL_S, dice.choice((0.1, MOST_STALL_S)))
            yield Fault(dice.uniform(0.0, 2.0 * mean_s), what, roles, dice.random(), stall_s,
                        dice.randint(*MESSAGES_AT_ONCE), dice.randrange(1 << 31))
        number += 1


class Pace:
    """How often each worker may die.

    Args:
        most: deaths of a worker within ``within_s`` seconds.
    """

    def __init__(self, most: int = DEATHS, within_s: float = WITHIN_S) -> None:
        self._most, self._within_s = most, within_s
        self._deaths: Dict[str, Deque[float]] = collections.defaultdict(lambda: collections.deque(maxlen=most))

    def allows(self, names: Sequence[str], now: float) -> bool:
        """Whether these workers may all die at ``now``."""
        return all(len(self._deaths[name]) < self._most or self._deaths[name][0] <= now - self._within_s
                   for name in names)

    def note(self, names: Sequence[str], at: float) -> None:
        """They die then, at the latest."""
        for name in names:
            self._deaths[name].append(at)
