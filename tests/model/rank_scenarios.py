"""Scenarios of the model of several ranks: programs, data, events; and the errors that can be planted."""

import dataclasses
from typing import Dict, FrozenSet, Tuple

# Actions of a thread, each with the number of a stream.
TRAIN = "train"
LOSS = "loss"  #: a step that fetches no update
FAIL_EARLY = "fail early"  #: a training step that fails before it has sent rows
FAIL_LATE = "fail late"  #: a training step that fails between its two exchanges
EVALUATE = "evaluate"
SKIP = "skip"  #: takes a batch without using it
RESTART = "restart"  #: initializes the iterator again
CHANGE = "change"  #: a threshold, an eviction, a reset
SAVE_ALL = "save"
BACKGROUND = "begin save"  #: a save in the background
CLOSE = "close"

Action = Tuple[str, int]
Thread = Tuple[Action, ...]


@dataclasses.dataclass(frozen=True)
class Ranks:
    """A scenario for ``ranks.Together``.

    Attributes:
        programs: threads of each rank; the first one closes at its end.
        batches: per rank and stream, the number of batches in each run of its iterator.
        ahead: number of batches that a dataset makes in advance.
        kills, stops: number of SIGKILLs and SIGSTOPs of ranks.
        impatience: number of waits that may time out although no rank is stopped.
        idles: number of headers in which a rank is idle or busy.
        hangs: number of parts of a save in the background that are never written.
        legal: the programs match: without kills, stops and impatience nothing may fail.
        stubborn: a program continues after a failed step instead of closing.
        flaws: errors to plant, see FLAWS.
    """

    programs: Tuple[Tuple[Thread, ...], ...]
    batches: Tuple[Tuple[int, ...], ...]
    ahead: int = 1
    kills: int = 0
    stops: int = 0
    impatience: int = 0
    idles: int = 0
    hangs: int = 0
    legal: bool = True
    stubborn: bool = False
    flaws: FrozenSet[str] = frozenset()


def thread(*actions: str) -> Thread:
    """Return a thread; actions use stream 0 unless a number follows: ``"train", "evaluate 1"``."""
    words = [action.rsplit(" ", 1) if action[-1].isdigit() else [action, "0"] for action in actions]
    return tuple((action, int(stream)) for action, stream in words)


def one(*actions: str) -> Tuple[Thread]:
    """Return the program of a rank with one thread."""
    return (thread(*actions, CLOSE),)


FLAWS: Dict[str, str] = {
    "ticket_ignored": "tickets are not compared",
    "run_ignored": "runs of iterators are not compared",
    "changes_alone": "a rank changes its tables without the others",
    "idle_ignored": "what an idle rank says is taken for what it does",
    "cause_ignored": "what failed on one rank is not looked at by the others",
    "claim_counts": "a claim changes the tables before all ranks have said that they have the batch",
    "no_poison": "tables are used after a step that failed between its two exchanges",
    "each_saves": "every rank saves where it stands, without the others",
    "end_when_late": "a rank takes a batch that its dataset has not made yet for the end of the data",
    "own_keys_made": "a rank takes its own keys for known to the others once it has made them",
    "no_turns": "steps of two threads come in the order in which each rank happens to begin them",
    "keeps_lease": "a step that must let another one pass keeps the lease",
    "close_waits_for_ever": "a rank that closes waits for the others without a limit",
    "answers_dropped": "rank 0 drops the answers to earlier questions when it takes those to a later one",
    "end_closes_all": "a rank takes the end of one question for the end of all, and leaves",
    "collects_for_ever": "rank 0 waits for an answer without a limit",
    "paused_hears": "a rank that does what rank 0 asked for says that it is idle, and is asked again",
}

_LOOP = ("train", "train", "restart", "train", "train", "save")

#: scenarios that must hold
SHORT: Dict[str, Ranks] = {
    "two ranks, killed": Ranks((one("train", "train"),) * 2, ((2,),) * 2, kills=1),
    "data ends earlier on one rank": Ranks((one(*_LOOP),) * 2, ((2,), (1,))),
    "data ends earlier on rank 0": Ranks((one(*_LOOP),) * 2, ((1,), (3,)), ahead=2),
    "three ranks, data ends earlier on one": Ranks((one("train", "train"),) * 3, ((2,), (1,), (2,))),
    "evaluation between steps": Ranks((one("train", "evaluate 1", "train", "save"),) * 2, ((2, 1),) * 2),
    "two training threads": Ranks(((thread("train", "train", "close"), thread("train 1")),) * 2, ((2, 1),) * 2),
    "one trains, one evaluates": Ranks(((thread("train", "train", "close"), thread("evaluate 1")),) * 2, ((2, 1),) * 2),
    "one trains, one evaluates, a batch each": Ranks(((thread("train", "close"), thread("evaluate 1")),) * 2,
                                                     ((1, 1),) * 2),
    "two training threads, a batch each": Ranks(((thread("train", "train", "close"), thread("train 1")),) * 2,
                                                ((1, 1),) * 2),
    "saves and changes": Ranks((one("train", "save", "change", "train", "save"),) * 2, ((2,),) * 2),
    "rank 0 alone changes": Ranks((one("train", "change", "train", "save"), one("train", "train")), ((2,),) * 2,
                                  idles=1),
    "idle": Ranks((one("train", "save", "train", "change"), one("train", "train")), ((2,),) * 2, idles=3),
    "three ranks, idle": Ranks((one("train", "save"), one("train"), one("train")), ((1,),) * 3, idles=2),
    "idle and killed": Ranks((one("train", "save"), one("train")), ((1,),) * 2, kills=1, idles=2),
    "idle and stopped": Ranks((one("train", "save"), one("train")), ((1,),) * 2, stops=1, idles=2),
    "idle and impatient": Ranks((one("train", "save"), one("train")), ((1,),) * 2, impatience=1, idles=2),
    "rank 0 alone saves": Ranks((one("train", "save", "train", "save"), one("train", "train")), ((2,),) * 2),
    "a save, killed": Ranks((one("train", "save"),) * 2, ((1,),) * 2, kills=1),
    "stopped": Ranks((one("train", "save"),) * 2, ((1,),) * 2, stops=1),
    "three ranks, one stopped": Ranks((one("train"),) * 3, ((1,),) * 3, stops=1),
    "impatient": Ranks((one("train", "train", "save"),) * 2, ((2,),) * 2, impatience=1),
    "impatient and killed": Ranks((one("train", "save"),) * 2, ((1,),) * 2, kills=1, impatience=1),
    "a save in the background": Ranks((one("train", "begin save", "train", "save"), one("train", "train")), ((2,),) * 2,
                                      idles=1),
    "a save in the background and a change": Ranks(
        (one("train", "begin save", "change", "train"), one("train", "train")), ((2,),) * 2),
    "a save in the background, idle": Ranks((one("begin save", "change"), one()), ((0,),) * 2, idles=2),
    "a save in the background, impatient": Ranks((one("begin save", "change"), one()), ((0,),) * 2, impatience=1),
    "a save in the background that hangs": Ranks(
        (one("begin save", "train", "save"), one("train", "save")), ((1,),) * 2, hangs=1),
    "a save in the background, killed": Ranks((one("begin save", "change"), one()), ((0,),) * 2, kills=1),
    "three ranks, a save in the background": Ranks((one("begin save", "change"), one(), one()), ((0,),) * 3),
    "all skip, all fetch the loss": Ranks((one("skip", "loss", "train"),) * 2, ((3,),) * 2),
}

_USUAL = one("train", "train", "save")


def _faulty(*programs: Tuple[Thread, ...], stubborn: bool = False, batches: int = 3, streams: int = 1) -> Ranks:
    return Ranks(programs, ((batches,) * streams,) * len(programs), legal=False, stubborn=stubborn)


_FAULTS: Dict[str, Tuple[Tuple[Thread, ...], int]] = {
    "skips a batch": (one("skip", "train", "save"), 1),
    "fails early": (one("fail early", "train", "save"), 1),
    "fails late": (one("train", "fail late", "save"), 1),
    "fetches the loss alone": (one("train", "loss", "save"), 1),
    "changes its tables alone": (one("train", "change", "train", "save"), 1),
    "starts its iterator again": (one("train", "restart", "train", "save"), 1),
    "starts its iterator twice": (one("restart", "train", "save"), 1),
    "closes early": (one("train"), 1),
    "evaluates alone": (one("train", "evaluate 1", "train", "save"), 2),
}

#: one rank has a fault: all ranks end, and no wrong state is saved
FAULTY: Dict[str, Ranks] = {
    "rank %d %s%s" % (rank, fault, ", all go on" if stubborn else ""):
        _faulty(*((program, _USUAL) if rank == 0 else (_USUAL, program)), stubborn=stubborn, streams=streams)
    for fault, (program, streams) in _FAULTS.items() for rank in range(2) for stubborn in (False, True)
}

#: scenario that shows each flaw
FLAWED: Dict[str, Ranks] = {
    "ticket_ignored": FAULTY["rank 1 skips a batch"],
    "run_ignored": FAULTY["rank 1 starts its iterator twice"],
    "changes_alone": SHORT["saves and changes"],
    "idle_ignored": SHORT["idle"],
    "cause_ignored": FAULTY["rank 1 fails late"],
    "claim_counts": SHORT["rank 0 alone saves"],
    "no_poison": FAULTY["rank 1 fails late, all go on"],
    "each_saves": SHORT["rank 0 alone saves"],
    "end_when_late": SHORT["data ends earlier on one rank"],
    "own_keys_made": SHORT["two ranks, killed"],
    "no_turns": SHORT["two training threads, a batch each"],
    "keeps_lease": SHORT["two training threads, a batch each"],
    "close_waits_for_ever": SHORT["stopped"],
    "answers_dropped": SHORT["a save in the background and a change"],
    "end_closes_all": SHORT["a save in the background, impatient"],
    "collects_for_ever": SHORT["a save in the background that hangs"],
    "paused_hears": SHORT["a save in the background, idle"],
}


def planted(flaw: str) -> Ranks:
    """Return the scenario that shows a flaw, with the flaw."""
    return dataclasses.replace(FLAWED[flaw], flaws=frozenset([flaw]))
