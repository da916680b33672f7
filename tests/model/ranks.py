"""Model of several ranks: each trains its part, and learns of other ranks only by headers.

The program of a rank has some threads.  A step takes the next batch of a stream and passes a *gate* unless the keys of
all ranks have arrived.  It claims the batch, exchanges rows (FORWARD), computes, exchanges gradients (BACKWARD) and
applies them.  Exchange n of a rank is matched with exchange n of every other rank, whatever their kinds are;
``verdicts`` decides the result.  Between the verdicts of FORWARD and BACKWARD, a table has the counts of the batch, but
not its updates.

The history of a table is a list of claims, updates and changes.  It must be equal on all ranks at each save, and at the
end on all ranks that may continue.
"""

from typing import Iterator

from .explore import Move, Violation
from .rank_exchanges import Exchanges
from .rank_questions import has_answers, may_collect, moves_of_others, owes, require_all_ended, slot_of, take
from .rank_scenarios import BACKGROUND, CHANGE, CLOSE, EVALUATE, FAIL_LATE, RESTART, SAVE_ALL, SKIP
from .rank_state import (
    COLLECT,
    COMPUTES,
    END,
    GONE,
    NO_BATCH,
    NOTHING,
    READY,
    RUNS,
    STOPPED,
    Rank,
    Step,
    World,
    changed,
    goes_on,
    with_rank,
    with_step,
)
from .state import replaced
from .verdicts import ASK, BACKWARD, BUSY, FORWARD, GATE, IDLE, LEAVE, READ


class Together(Exchanges):
    """The model of several ranks in one scenario."""

    def start(self) -> World:
        sc = self.scenario
        streams = len(sc.batches[0])
        # The last slot is the thread that writes saves in the background.
        ranks = tuple(
            Rank((0,) * len(threads), (None,) * (len(threads) + 1), (1,) * streams, (0,) * streams, (0,) * streams,
                 (((1, 0),) * self.count,) * streams)
            for threads in sc.programs)
        return World(ranks, (), 0, sc.kills, sc.stops, sc.impatience, sc.idles, sc.hangs)

    def may_stop(self, state: World) -> bool:
        return all(rank.life != RUNS for rank in state.ranks)

    def _check_end(self, state: World) -> None:
        sc = self.scenario
        going_on = {rank.tables for rank in state.ranks
                    if not (rank.poisoned or rank.broken or rank.killed or rank.life == STOPPED)}
        if len(going_on) > 1:
            raise Violation("tables of ranks that may go on differ: %s" % sorted(going_on))
        if not sc.legal or (state.kills, state.stops, state.impatience, state.hangs) != (
                sc.kills, sc.stops, sc.impatience, sc.hangs):
            return
        if not sc.flaws & {"each_saves", "changes_alone"}:
            require_all_ended(state)
        if any(rank.failed for rank in state.ranks):
            raise Violation("something failed although no program has a fault: %s" % [r.failed for r in state.ranks])
        if len({(rank.overs, rank.saves) for rank in state.ranks}) > 1:
            raise Violation("ranks met other ends of the data, or saved otherwise")

    def moves(self, state: World) -> Iterator[Move]:
        if self.may_stop(state):
            self._check_end(state)
        moved = False
        for number, rank in enumerate(state.ranks):
            if rank.life != RUNS:
                continue
            name = "rank %d" % number
            for move in self._of_rank(state, number, name):
                moved = moved or not move.optional
                yield move
            if state.kills:
                yield Move(name + ": SIGKILL", with_rank, (state._replace(kills=state.kills - 1), number,
                                                       rank._replace(life=GONE, killed=True)), True)
            if state.stops:
                yield Move(name + ": SIGSTOP", with_rank, (state._replace(stops=state.stops - 1), number,
                                                       rank._replace(life=STOPPED)), True)
        for number in range(self.count):
            if not moved or state.impatience:
                yield from self._gives_up(state, number, "rank %d" % number, in_vain=not moved)

    def _of_rank(self, state: World, number: int, name: str) -> Iterator[Move]:
        threads = range(len(state.ranks[number].at))
        yield from self._makes_batches(state, number, name)
        for thread in threads:
            called = name if len(threads) == 1 else "%s thread %d" % (name, thread)
            yield from self._thread(state, number, thread, called)
        rank = state.ranks[number]
        yield from self._background(state, number, name)
        if state.idles and rank.sender == NOTHING and not rank.broken:
            waits = any(step is not None and step.phase not in (READY, GATE) for step in rank.steps)
            may_be_asked = number > 0 and not waits and (not rank.paused or "paused_hears" in self.scenario.flaws)
            says = IDLE if may_be_asked else BUSY
            if says == IDLE or rank.paused or number == 0 or owes(rank):
                yield Move("%s: is %s" % (name, says), self._pulse, (state, number, says), True)
        if number > 0:
            yield from moves_of_others(state, number, name)
        yield from self._exchanges(state, number, name)

    # ---- data

    def _makes_batches(self, world: World, number: int, name: str) -> Iterator[Move]:
        rank, sc = world.ranks[number], self.scenario
        for stream, made in enumerate(rank.made):
            if made < min(sc.batches[number][stream], rank.taken[stream] + sc.ahead):
                yield Move("%s: its dataset makes batch %d of stream %d" % (name, made + 1, stream), with_rank,
                           (world, number, rank._replace(made=replaced(rank.made, stream, made + 1))))

    # ---- programs

    def _thread(self, world: World, number: int, thread: int, name: str) -> Iterator[Move]:
        rank = world.ranks[number]
        program = self.scenario.programs[number][thread]
        if rank.at[thread] == len(program):
            return
        action, stream = program[rank.at[thread]]
        step = rank.steps[thread]
        if step is None:
            yield from self._begins(world, number, thread, name, action, stream)
        elif rank.paused and not rank.broken:
            if step.phase == COMPUTES:
                raise Violation("%s does what rank 0 asks for in the middle of a step" % name)
        elif step.phase in (COLLECT, END) and not rank.broken:
            yield from self._question(world, number, thread, name, step)
        elif step.phase == READY:
            if rank.poisoned or rank.broken:
                yield Move(name + ": its claim is refused", with_rank,
                           (world, number, self._failed(rank, number, thread)))
            elif rank.lease == NOTHING and rank.turn in (NOTHING, stream):
                yield Move("%s: claims %s" % (name, step.batch), with_rank,
                           (world, number, self._claimed(rank, thread, step, action)))
        elif step.phase == COMPUTES:
            yield Move(name + (": its step fails" if action == FAIL_LATE else ": has gradients"), with_rank,
                       (world, number, with_step(rank, thread, step._replace(phase=BACKWARD))))
        elif rank.broken:
            after = self._stopped(rank._replace(sender=thread), number, step, step.phase == BACKWARD)
            yield Move(name + ": its exchange is refused", with_rank, (world, number, after))
        elif step.phase == GATE and self._has_keys(rank, number, step):
            yield Move("%s: has all keys of %s" % (name, step.batch), with_rank,
                       (world, number, with_step(rank, thread, step._replace(phase=READY))))
        elif rank.sender == NOTHING and rank.lease in (NOTHING, thread) and (
                rank.turn in (NOTHING, stream) or step.batch == NO_BATCH):
            yield Move("%s: sends %s %s" % (name, step.phase, step.batch), self._sent,
                       (world, number, thread, step, action))

    def _background(self, world: World, number: int, name: str) -> Iterator[Move]:
        """Yield the moves of rank 0's thread that collects answers to a save in the background and sends its end."""
        rank = world.ranks[number]
        slot = slot_of(rank)
        step = rank.steps[slot]
        if step is None:
            return
        if rank.broken:
            after = self._stopped(rank._replace(sender=slot), number, step, False)
            yield Move(name + ": its save fails", with_rank, (world, number, after))
        else:
            yield from self._question(world, number, slot, name + " save", step)

    def _question(self, world: World, number: int, thread: int, name: str, step: Step) -> Iterator[Move]:
        """Yield the next move of a question that all ranks have received."""
        rank = world.ranks[number]
        if step.phase == COLLECT and has_answers(rank, step.number, self.count):
            after = with_step(take(rank, step.number, self.scenario), thread, step._replace(phase=END))
            yield Move("%s: has all answers to %d" % (name, step.number), with_rank, (world, number, after))
        elif rank.sender == NOTHING and not owes(rank) and (step.phase == END or may_collect(world, step.number)):
            yield Move("%s: sends %s %d" % (name, step.phase, step.number), self._sent,
                       (world, number, thread, step, ""))

    def _begins(self, world: World, number: int, thread: int, name: str, action: str,
                stream: int) -> Iterator[Move]:
        rank, flaws = world.ranks[number], self.scenario.flaws
        if action == CLOSE:
            if any(at < len(other) for at, other in zip(rank.at[1:], self.scenario.programs[number][1:])):
                return  # its other threads must end first
            if rank.writes or rank.steps[slot_of(rank)] is not None:
                return  # its saves must end first
            if rank.broken:
                yield Move(name + ": closes without the others", with_rank, (world, number, rank._replace(life=GONE)))
                return
            yield Move(name + ": closes", with_rank, (world, number, with_step(rank, thread, Step(NO_BATCH, LEAVE))))
        elif action == SAVE_ALL and "each_saves" in flaws:
            after = rank._replace(saves=rank.saves + (rank.tables,))
            yield Move(name + ": saves by itself", self._saved_alone, (world, number, goes_on(after, thread)))
        elif action == CHANGE and "changes_alone" in flaws:
            if rank.lease == NOTHING:
                yield Move(name + ": changes its tables alone", with_rank,
                           (world, number, goes_on(changed(rank), thread)))
        elif action in (SAVE_ALL, BACKGROUND, CHANGE) and number > 0:
            if action == SAVE_ALL and rank.open and not rank.broken:
                after = with_step(rank, thread, Step(NO_BATCH, IDLE))
                yield Move(name + ": waits for the save of rank 0", with_rank, (world, number, after))
            else:
                yield Move(name + ": leaves it to rank 0", with_rank, (world, number, goes_on(rank, thread)))
        elif action in (SAVE_ALL, BACKGROUND, CHANGE) and (rank.poisoned or rank.broken):
            yield Move(name + ": what it asks for is refused", with_rank,
                       (world, number, self._failed(rank, number, thread)))
        elif action in (SAVE_ALL, BACKGROUND, CHANGE):
            if rank.lease == NOTHING and (action == CHANGE or rank.steps[slot_of(rank)] is None):
                yield Move("%s: asks for a %s" % (name, action), with_rank, (
                    world, number, with_step(rank, thread, Step(NO_BATCH, ASK))._replace(lease=thread)))
        elif action == RESTART:
            after = rank._replace(runs=replaced(rank.runs, stream, rank.runs[stream] + 1),
                                  made=replaced(rank.made, stream, 0), taken=replaced(rank.taken, stream, 0))
            yield Move(name + ": its iterator begins again", with_rank, (world, number, goes_on(after, thread)))
        else:
            yield from self._takes(world, number, thread, name, action, stream)

    def _takes(self, world: World, number: int, thread: int, name: str, action: str,
               stream: int) -> Iterator[Move]:
        """Take the next batch of a stream, or reach its end."""
        rank, sc = world.ranks[number], self.scenario
        ticket = rank.taken[stream] + 1
        batch = (stream, rank.runs[stream], ticket)
        exists = ticket <= rank.made[stream]
        if not exists and rank.made[stream] < sc.batches[number][stream] and "end_when_late" not in sc.flaws:
            return
        after = rank._replace(taken=replaced(rank.taken, stream, ticket)) if exists else rank
        if action == SKIP:
            yield Move("%s: takes %s and does nothing with it" % (name, batch), with_rank,
                       (world, number, goes_on(after, thread)))
            return
        after = with_step(after, thread, Step(batch, GATE, exists))
        yield Move("%s: %s %s" % (name, "takes" if exists else "there is no", batch), with_rank, (world, number, after))

    def _has_keys(self, rank: Rank, number: int, step: Step) -> bool:
        """Return True if the keys of all ranks have arrived.

        Evaluated before a header is sent, so the result is equal on all ranks.
        """
        stream, run, ticket = step.batch
        return step.exists and rank.sender == NOTHING and all(
            its_run == run and last >= ticket for other, (its_run, last) in enumerate(rank.keys[stream])
            if other != number or "own_keys_made" not in self.scenario.flaws)

    def _claimed(self, rank: Rank, thread: int, step: Step, action: str) -> Rank:
        rank = with_step(rank, thread, step._replace(phase=READ if action == EVALUATE else FORWARD))
        if "claim_counts" in self.scenario.flaws and action != EVALUATE:
            rank = rank._replace(tables=rank.tables + (("claim", step.batch),))
        return rank._replace(lease=thread)
