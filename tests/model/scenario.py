"""A scenario: the data, the sizes, and how many of the optional events may happen."""

import dataclasses
from typing import FrozenSet, Tuple

Keys = Tuple[int, ...]

NO_TABLE, ONLY_A, ONLY_B, BOTH = 0, 1, 2, 3  #: tables a step fetches, a bit each; NO_TABLE is a peek

#: how a table worker decides that it is time to plan
ANY_TIME = "any time"  #: whenever a plan is possible: contains every other rule
LOOK_AHEAD = "look ahead"  #: when everything submitted is touched, or the trainer wants the ticket


@dataclasses.dataclass(frozen=True)
class Scenario:
    """What ``model.Protocol`` is run on.

    Attributes:
        batches: per table, per ticket from 1 on, the distinct keys of the batch.
        keys: how many keys (and entries) there are.
        slots: device rows of each table.
        frames: frames of the train ring in use at most.
        positions: of the ring, which they lie in; 0 = as many as frames.
        plans: how many plans may stand beyond the last claimed one.
        threshold: batches in which a key must occur before it gets a row.
        kinds: tables that a step may fetch.
        threads: training threads.
        kills, key_kills: SIGKILLs of table workers, of key workers.
        key_workers: 0 = a submitted frame is deduplicated in the same instant.
        reads: how often the truth is read (``size()``, save).
        evals: keys of each evaluation ticket, the same for all tables.
        copies: evaluation tickets of a session that reads a checkpoint instead of the live tables.
        beside: evaluation tickets that a training step may fetch, too.
        eval_frames: frames of the evaluation ring.
        restarts: how often the train iterator may be re-initialised.
        drops: how many parked tickets each of that may drop.
        fetch_parked: a step may get a ticket that has no frame yet.
        fails: how many steps may fail.
        asides: how often a step may put aside its claims, or what its evaluation has read; if it may, a claim counts
            from GO on only, see asides.py.
        cuts: (table, kind, argument) in this order; kinds are "threshold", "evict", "reset" and those of loads.py.
        planning: ANY_TIME or LOOK_AHEAD.
        fine_claim: the check of a claim, its CAS and the mark TRAINED are steps of their own.
        flaws: errors to plant, see flaws.py.
    """

    batches: Tuple[Tuple[Keys, ...], ...]
    keys: int = 2
    slots: int = 1
    frames: int = 2
    positions: int = 0
    plans: int = 1
    threshold: int = 1
    kinds: Tuple[int, ...] = (BOTH, ONLY_A)
    threads: int = 1
    kills: int = 0
    key_kills: int = 0
    key_workers: int = 0
    reads: int = 0
    evals: Tuple[Keys, ...] = ()
    copies: Tuple[int, ...] = ()
    beside: Tuple[int, ...] = ()
    eval_frames: int = 1
    restarts: int = 0
    drops: Tuple[int, ...] = (0,)
    fetch_parked: bool = False
    fails: int = 0
    asides: int = 0
    cuts: Tuple[Tuple[int, str, int], ...] = ()
    planning: str = ANY_TIME
    fine_claim: bool = False
    flaws: FrozenSet[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", self.positions or self.frames)

    @property
    def last(self) -> int:
        """The last ticket."""
        return len(self.batches[0])

    @property
    def tables(self) -> range:
        """Table numbers."""
        return range(len(self.batches))
