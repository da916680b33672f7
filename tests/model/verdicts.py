"""Verdict of all ranks about one exchange: a pure function of the headers, so each rank computes the same verdict.

All exchanges of a pipeline have the same name, so any two headers of ranks are matched and compared here.
"""

from typing import FrozenSet, NamedTuple, Sequence, Tuple

# Kinds of headers: the next action of a rank.
GATE = "gate"  #: begins a step with a batch, but does not have the keys of all ranks yet
FORWARD = "forward"  #: has claimed a batch and sends rows; its tables are unchanged
BACKWARD = "backward"  #: sends the gradients of a batch
READ = "read"  #: sends rows for an evaluation of a batch
ASK = "ask"  #: rank 0 requests a save, a restore or a change of tables, between two steps
IDLE = "idle"  #: another rank than rank 0 has nothing to do, and can execute a request of rank 0
LEAVE = "leave"  #: closes
BROKEN = "broken"  #: has abandoned an exchange, and makes no further exchanges
BUSY = "busy"  #: lives, but cannot execute a request: it computes a step or executes a request of rank 0

# Kinds of verdicts.
BEGIN = "begin"  #: all ranks have the batch
OVER = "over"  #: some rank has no such batch: the data ends for all ranks
GO = "go"  #: all ranks send rows of one batch; from now on tables change
ROWS = "rows"  #: like GO, for an evaluation
APPLY = "apply"  #: all ranks send gradients of one batch
TURN = "turn"  #: batches of several streams: the batch of rank 0 comes first, and all ranks send again
ASKED = "asked"  #: every rank executes the request of rank 0; then the other ranks send again
AGAIN = "again"  #: a rank has nothing to exchange yet: the other ranks send again
LEFT = "left"  #: all ranks close
FAIL = "fail"  #: the step of each rank fails, and its tables are unchanged
POISON = "poison"  #: the step of each rank fails, and some tables may have its updates: no rank may use them any more

Batch = Tuple[int, int, int]  # stream, run of its iterator, ticket


class Header(NamedTuple):
    """Header of a rank.

    Attributes:
        kind: GATE...
        batch: for GATE, FORWARD, BACKWARD, READ.
        exists: for GATE: False if the rank's data ends before the batch.
        cause: why the rank's step fails, or "".
        keys: for each stream, (run, last ticket whose keys came with this header or an earlier one).
        changes: number of changes of the rank's tables.
        asks: for ASK: subject of the question.
        number: for ASK: number of the question.
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
    """Result for every rank.  ``cause``: what each rank did (FAIL, POISON), or why ranks fail (AGAIN)."""

    kind: str
    batch: Batch = (0, 0, 0)
    cause: str = ""


def decide(headers: Sequence[Header], flaws: FrozenSet[str] = frozenset()) -> Verdict:
    """Return the verdict for the headers of all ranks, in rank order."""
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
