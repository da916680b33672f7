"""A scenario: data, sizes, and the number of optional events."""

import dataclasses
from typing import FrozenSet, Tuple

Keys = Tuple[int, ...]

NO_TABLE, ONLY_A, ONLY_B, BOTH = 0, 1, 2, 3  #: tables that a step fetches, a bit each; NO_TABLE: a peek

#: when a table worker plans
ANY_TIME = "any time"  #: whenever a plan is possible, which includes every other rule
LOOK_AHEAD = "look ahead"  #: when all submitted frames are touched, or a claim waits for the ticket


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A scenario for ``protocol.Protocol``.

    Attributes:
        batches: per table and per ticket, from 1 on, the distinct keys of the batch.
        keys: number of keys, and of entries.
        slots: device rows of each table.
        frames: maximum number of used frames of the training ring.
        positions: positions of the ring; 0: as many as frames.
        plans: maximum number of plans after the last claimed one.
        threshold: number of batches in which a key must occur before it gets a row.
        kinds: tables that a step may fetch.
        threads: training threads.
        kills, key_kills: SIGKILLs of table workers, of key workers.
        key_workers: number of key workers; 0: a submitted frame is deduplicated at once.
        reads: number of reads of the truth (``size()``, save).
        evals: keys of each evaluation ticket, the same for all tables.
        copies: evaluation tickets of a session that reads a checkpoint instead of the live tables.
        beside: evaluation tickets that a training step may also fetch.
        eval_frames: frames of the evaluation ring.
        restarts: number of re-initializations of the training iterator.
        drops: numbers of parked tickets that a re-initialization may drop.
        fetch_parked: a step may get a ticket that has no frame yet.
        fails: number of steps that may fail.
        asides: how often a step may put aside its claims, or the reads of its evaluation.  If above 0, claims are final
            only from GO on, see asides.py.
        cuts: (table, kind, argument) in this order; kinds are "threshold", "evict", "reset" and the kinds of loads.py.
        planning: ANY_TIME or LOOK_AHEAD.
        fine_claim: the check of a claim, its CAS and the mark TRAINED are separate moves.
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
