"""What all ranks conclude from one exchange: a pure function of the headers, so each rank concludes the same.

Every exchange of a pipeline has the same name.  So whatever two ranks send meets, and is compared here.
"""

from typing import FrozenSet, NamedTuple, Sequence, Tuple

# Kinds of headers: what a rank is about to do.
GATE = "gate"  #: it would begin a step with a batch, and does not have the keys of all ranks yet
FORWARD = "forward"  #: it has claimed a batch and sends rows; nothing has changed in its tables
BACKWARD = "backward"  #: it sends the gradients of a batch
READ = "read"  #: it sends rows for an evaluation of a batch
ASK = "ask"  #: rank 0 asks all ranks for a save, a restore or a change of tables; it is between two steps
IDLE = "idle"  #: it does nothing for now, and is no rank 0: it hears what rank 0 asks for
LEAVE = "leave"  #: it closes
BROKEN = "broken"  #: it has given up an exchange, and exchanges nothing any more
BUSY = "busy"  #: it lives, and cannot be asked: it computes a step or does what rank 0 asked for

# Kinds of verdicts.
BEGIN = "begin"  #: all ranks have the batch
OVER = "over"  #: some rank has no such batch: the data ends for all
GO = "go"  #: rows of one batch on all ranks; from here on tables change
ROWS = "rows"  #: as GO, for an evaluation
APPLY = "apply"  #: gradients of one batch on all ranks
TURN = "turn"  #: batches of several streams: that of rank 0 comes first, and all send anew
ASKED = "asked"  #: every rank does what rank 0 asks for; then all others send anew
AGAIN = "again"  #: a rank has nothing to say yet: all others send anew
LEFT = "left"  #: all close
FAIL = "fail"  #: the step of each rank fails; its tables are as before it
POISON = "poison"  #: the step of each rank fails, and some tables may have its updates: no rank may go on with them

Batch = Tuple[int, int, int]  # stream, run of its iterator, ticket


class Header(NamedTuple):
    """What a rank says.

    Attributes:
        kind: GATE...
        batch: of GATE, FORWARD, BACKWARD, READ.
        exists: of GATE: False if the rank's data ends before the batch.
        cause: why the rank's step fails; "" if it does not.
        keys: for each stream (run, last ticket whose keys came with this header or an earlier one).
        changes: how many changes the rank's tables have seen.
        asks: of ASK: what for.
        number: of ASK: of the question.
        answers: numbers of the questions that the rank answers with this header.
    """

    kind: str
    batch: Batch = (0, 0, 0)
    exists: bool = True
    cause: str = ""
    keys: Tuple[Tuple[int, int], ...] = ()
    changes: int = 0
    asks: str = ""
    number: int = 0
    answers: Tuple[int, ...] = ()


class Verdict(NamedTuple):
    """What follows for every rank; ``cause`` of FAIL and POISON says what each rank did, of AGAIN why ranks fail."""

    kind: str
    batch: Batch = (0, 0, 0)
    cause: str = ""


def decide(headers: Sequence[Header], flaws: FrozenSet[str] = frozenset()) -> Verdict:
    """The verdict over the headers of all ranks, in rank order."""
    kinds = {header.kind for header in headers}
    if kinds == {LEAVE}:
        return Verdict(LEFT)
    causes = ["rank %d: %s" % (rank, header.cause) for rank, header in enumerate(headers) if header.cause]
    failed = POISON if BACKWARD in kinds else FAIL
    if kinds & {IDLE, BUSY} and BROKEN not in kinds and "idle_ignored" not in flaws:
        is_heard = headers[0].kind == ASK and not kinds & {BACKWARD, BUSY} and not causes
        begins = is_heard and _agree_on_changes(headers, flaws)
        return Verdict(ASKED) if begins else Verdict(AGAIN, cause="; ".join(causes))
    if causes and "cause_ignored" not in flaws:
        return Verdict(failed, cause="; ".join(causes))
    if headers[0].kind == ASK and not kinds & {BACKWARD, BROKEN}:
        return Verdict(ASKED) if _agree_on_changes(headers, flaws) else Verdict(FAIL, cause=_text(headers))
    if kinds & {ASK, LEAVE, BROKEN, BUSY}:
        return Verdict(failed, cause=_text(headers))
    if len({_compared(header.batch, flaws) for header in headers}) == 1 and len(kinds) == 1:
        if headers[0].kind == GATE:
            return Verdict(BEGIN if all(header.exists for header in headers) else OVER, headers[0].batch)
        if not _agree_on_changes(headers, flaws):
            return Verdict(failed, cause=_text(headers))
        return Verdict({FORWARD: GO, BACKWARD: APPLY, READ: ROWS}[headers[0].kind], headers[0].batch)
    if BACKWARD not in kinds and len({header.batch[0] for header in headers}) > 1 and "no_turns" not in flaws:
        return Verdict(TURN, headers[0].batch)
    return Verdict(failed, cause=_text(headers))


def _compared(batch: Batch, flaws: FrozenSet[str]) -> Batch:
    stream, run, ticket = batch
    return stream, 0 if "run_ignored" in flaws else run, 0 if "ticket_ignored" in flaws else ticket


def _agree_on_changes(headers: Sequence[Header], flaws: FrozenSet[str]) -> bool:
    return "changes_ignored" in flaws or len({header.changes for header in headers}) == 1


def _text(headers: Sequence[Header]) -> str:
    return "; ".join("rank %d: %s %s, %d changes" % (rank, header.kind, header.batch, header.changes)
                     for rank, header in enumerate(headers))
