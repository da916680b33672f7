"""Exchanges in the model of several ranks: headers, verdicts, their effects, and abandoned exchanges."""

from typing import Iterator, List

from .explore import Move, System, Violation
from .rank_questions import begin, has_answers, header_of, heard, slot_of, take
from .rank_scenarios import BACKGROUND, CHANGE, CLOSE, FAIL_EARLY, FAIL_LATE, LOSS, Ranks
from .rank_state import (
    COLLECT,
    COMPUTES,
    END,
    GONE,
    IDLES,
    NOTHING,
    READY,
    RUNS,
    Rank,
    Step,
    World,
    goes_on,
    headers_of,
    pruned,
    with_header,
    with_rank,
    with_step,
)
from .state import replaced
from .verdicts import (
    AGAIN,
    APPLY,
    ASK,
    ASKED,
    BACKWARD,
    BEGIN,
    BROKEN,
    BUSY,
    FAIL,
    FORWARD,
    GO,
    IDLE,
    LEAVE,
    LEFT,
    OVER,
    POISON,
    READ,
    ROWS,
    TURN,
    Header,
    Verdict,
    decide,
)


class Exchanges(System[World]):
    """The exchanges of ranks.

    Args:
        scenario: the scenario to explore.
    """

    def __init__(self, scenario: Ranks) -> None:
        self.scenario = scenario
        self.count = len(scenario.programs)

    def _failed(self, rank: Rank, number: int, thread: int) -> Rank:
        """Fail the thread's action: its program closes, or continues if it is stubborn."""
        after = goes_on(rank, thread)._replace(failed=rank.failed + 1)
        if self.scenario.stubborn or thread == slot_of(rank):
            return after
        program = self.scenario.programs[number][thread]
        return after._replace(at=replaced(after.at, thread, len(program) - (program[-1][0] == CLOSE)))

    def _pulse(self, world: World, number: int, kind: str) -> World:
        """Send a header of a rank that lives and has nothing to exchange."""
        rank = world.ranks[number]
        header = Header(kind, keys=tuple(zip(rank.runs, rank.made)), changes=rank.changes, answers=rank.answers)
        after = rank._replace(sender=IDLES, answers=())
        return with_header(with_rank(world._replace(idles=world.idles - 1), number, after), number, header)

    def _sent(self, world: World, number: int, thread: int, step: Step, action: str) -> World:
        rank = world.ranks[number]
        fails = (step.phase, action) in ((FORWARD, FAIL_EARLY), (BACKWARD, FAIL_LATE))
        cause = "its step fails" if fails else "its tables are poisoned" if rank.poisoned else ""
        if step.phase == LEAVE:
            cause = "its program fails" if rank.failed and not self.scenario.stubborn else ""
        asks, question = header_of(rank, step, action)
        keys = tuple(zip(rank.runs, rank.made))
        header = Header(ASK if asks else step.phase, step.batch, step.exists, cause, keys, rank.changes, asks, question,
                        rank.answers)
        return with_header(with_rank(world, number, rank._replace(sender=thread, answers=())), number, header)

    def _exchanges(self, world: World, number: int, name: str) -> Iterator[Move]:
        """Yield the end of a rank's exchange: a verdict, a failure, or the end of the engine."""
        rank, sc = world.ranks[number], self.scenario
        headers = headers_of(world, rank.exchanges)
        if headers[number] is None:
            if rank.broken and not rank.ended:
                yield Move(name + ": says that it is broken", with_header,
                           (world, number, Header(BROKEN, cause="it gave up")))
            return
        sent = [header for header in headers if header is not None]
        is_whole = len(sent) == self.count
        if is_whole:
            verdict = decide(sent, sc.flaws)
            yield Move("%s: %s" % (name, verdict.kind), self._concluded, (world, number, sent, verdict))
        if rank.broken:
            return
        if any(other.life == GONE or other.ended for other in world.ranks):
            yield Move(name + ": the engine has ended", self._broken, (world, number, True), is_whole)

    def _gives_up(self, world: World, number: int, name: str, in_vain: bool) -> Iterator[Move]:
        """Yield the timeout of a wait: because no other move is possible, or although one is."""
        rank = world.ranks[number]
        if rank.life != RUNS or rank.broken:
            return
        if rank.sender in (NOTHING, IDLES):
            for thread, step in enumerate(rank.steps):
                if step is not None and in_vain and step.phase == COLLECT:
                    if "collects_for_ever" not in self.scenario.flaws:  # only this save fails
                        after = with_step(rank, thread, step._replace(phase=END, exists=False))
                        yield Move("%s: gives up %d" % (name, step.number), with_rank, (world, number, after))
                elif step is not None and in_vain:
                    after = rank._replace(sender=thread, broken=True)
                    yield Move(name + ": gives up its turn", with_rank, (
                        world, number, self._stopped(after, number, step, step.phase == BACKWARD)))
            return
        if self._waits_for_ever(rank, in_vain):
            return
        if None in headers_of(world, rank.exchanges):
            after = world if in_vain else world._replace(impatience=world.impatience - 1)
            yield Move(name + ": gives up", self._impatient if not in_vain else self._broken, (after, number, False),
                       not in_vain)

    def _waits_for_ever(self, rank: Rank, in_vain: bool) -> bool:
        step = rank.steps[rank.sender]
        if step is None or step.phase != LEAVE:
            return step is not None and step.phase == IDLE and "collects_for_ever" in self.scenario.flaws
        return "close_waits_for_ever" in self.scenario.flaws or bool(rank.open and not in_vain)

    def _impatient(self, world: World, number: int, ended: bool) -> World:
        rank = world.ranks[number]
        step = rank.steps[rank.sender]
        if step is not None and step.phase == LEAVE and world.ranks[0].asked > len(rank.ends):
            raise Violation("rank %d leaves, and a save is not over" % number)
        return self._broken(world, number, ended)

    def _broken(self, world: World, number: int, ended: bool) -> World:
        rank = world.ranks[number]._replace(broken=True, ended=ended)
        if rank.sender == IDLES:
            return with_rank(world, number, rank._replace(sender=NOTHING))
        step = rank.steps[rank.sender]
        assert step is not None
        return with_rank(world, number, self._stopped(rank, number, step, step.phase == BACKWARD))

    def _stopped(self, rank: Rank, number: int, step: Step, torn: bool) -> Rank:
        """Fail the sender of the header.

        ``torn``: its batch is counted and not applied, here or possibly on another rank.
        """
        thread = rank.sender
        poisoned = rank.poisoned or (torn and "no_poison" not in self.scenario.flaws)
        rank = rank._replace(poisoned=poisoned, torn=rank.torn or torn, sender=NOTHING)
        return rank._replace(life=GONE) if step.phase == LEAVE else self._failed(rank, number, thread)

    def _concluded(self, world: World, number: int, headers: List[Header], verdict: Verdict) -> World:
        rank = world.ranks[number]
        thread, was_broken = rank.sender, rank.broken
        keys = tuple(tuple(header.keys[stream] if header.keys else (0, 0) for header in headers)
                     for stream in range(len(rank.runs)))
        rank = rank._replace(exchanges=rank.exchanges + 1, turn=NOTHING, keys=keys)
        if number == 0:
            rank = heard(rank, headers)
        if not was_broken:
            rank = self._follows(rank, number, thread, headers, verdict)
        return pruned(self._checked(with_rank(world, number, rank), number))

    def _follows(self, rank: Rank, number: int, thread: int, headers: List[Header], verdict: Verdict) -> Rank:
        if thread == IDLES:
            rank = rank._replace(sender=NOTHING)
            return begin(rank, number, headers, thread, self.scenario) if verdict.kind == ASKED else rank
        step = rank.steps[thread]
        assert step is not None
        threads = self.scenario.programs[number]
        action = threads[thread][rank.at[thread]][0] if thread < len(threads) else BACKGROUND
        differ = len({(header.kind, header.batch) for header in headers}) > 1 or any(h.cause for h in headers)
        if verdict.kind in (GO, ROWS, APPLY) and differ:
            raise Violation("%s although the ranks say %s" % (verdict.kind, headers))
        if verdict.kind in (FAIL, POISON):
            return self._stopped(rank, number, step, verdict.kind == POISON)
        rank = rank._replace(sender=NOTHING)
        if verdict.kind == LEFT:
            return rank._replace(life=GONE)
        if verdict.kind == AGAIN:  # a rank that waits for a save sees that rank 0 continues without it
            return goes_on(rank, thread) if step.phase == IDLE and headers[0].kind not in (ASK, BUSY) else rank
        if verdict.kind == ASKED:
            rank = begin(rank, number, headers, thread, self.scenario)
            return self._after_question(rank, thread, step, action)
        if verdict.kind == TURN:
            return self._turned(rank, verdict.batch[0])
        if verdict.kind == BEGIN:
            return with_step(rank, thread, step._replace(phase=READY))
        if verdict.kind == GO:
            if "claim_counts" not in self.scenario.flaws:
                rank = rank._replace(tables=rank.tables + (("claim", step.batch),))
            return goes_on(rank, thread) if action == LOSS else with_step(rank, thread, step._replace(phase=COMPUTES))
        if verdict.kind == APPLY:
            rank = rank._replace(tables=rank.tables + (("update", step.batch),))
        if verdict.kind == OVER:
            rank = rank._replace(overs=rank.overs + 1)
        return goes_on(rank, thread)

    def _after_question(self, rank: Rank, thread: int, step: Step, action: str) -> Rank:
        """Continue the thread of rank 0 that has asked; threads of other ranks send again."""
        if step.phase == ASK and action == BACKGROUND:
            return goes_on(rank, thread)  # the slot of saves in the background continues
        if step.phase == IDLE and not rank.open:
            return goes_on(rank, thread)
        if step.phase != END:
            return rank
        if action == CHANGE and not has_answers(rank, step.number, self.count):
            raise Violation("a change has ended, and a rank has not said that it has made it")
        after = goes_on(take(rank, step.number, self.scenario), thread)
        return after if step.exists else after._replace(failed=after.failed + 1)

    def _saved_alone(self, world: World, number: int, rank: Rank) -> World:
        return self._checked(with_rank(world, number, rank), number)

    def _turned(self, rank: Rank, stream: int) -> Rank:
        """Give the next exchange to ``stream``.

        Claims of other streams are put aside, even if they were not sent yet.
        """
        for thread, step in enumerate(rank.steps):
            if step is not None and step.phase in (FORWARD, READ) and step.batch[0] != stream:
                rank = with_step(rank, thread, step._replace(phase=READY))
                rank = rank if "keeps_lease" in self.scenario.flaws else rank._replace(lease=NOTHING)
        return rank._replace(turn=stream)

    def _checked(self, world: World, number: int) -> World:
        """Check the invariants that a rank's exchange or save may break."""
        rank = world.ranks[number]
        for other in world.ranks:
            for mine, its in zip(rank.saves, other.saves):
                if mine != its:
                    raise Violation("one save has %s and %s" % (mine, its))
            if other.exchanges == rank.exchanges and other.keys != rank.keys:
                raise Violation("ranks do not know of the same keys: %s, %s" % (rank.keys, other.keys))
        if rank.torn and rank.saves and rank.saves[-1] == rank.tables:
            raise Violation("a step that failed halfway is in a save: %s" % (rank.tables,))
        return world
