"""Readers in the model of rows on disk: evaluations, and saves in the background.

A reader announces the current epoch before it determines where rows are, and clears it after it has read them.  While
its epoch is set, it waits only for the disk.  With ``Scenario.asks``, rows on disk are read by requests
(``disk_asks.py``), otherwise in one move.
"""

from typing import Any, Iterator, List

from . import disk_asks
from .disk_state import CLAIMED, DONE, NONE, TORN, Entry, Evaluation, Save, Scenario, World, at, true_row
from .disk_worker import is_row
from .explore import Move, Violation
from .state import replaced

EVALUATES, SAVES = range(2)  #: index of World.readers


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of the reading threads."""
    if world.evaluation.next < len(sc.evals):
        yield from _evaluates(sc, world, world.evaluation)
    yield from _saves(sc, world)


# ---------------------------------------------------------------- reading a row


def read_row(sc: Scenario, world: World, key: int, where: Entry, of: str) -> Any:
    """Return the row at a location.

    Rows are in quarantine before they are replaced, so a trailer that differs from the entry is a violation.
    """
    if where.home == NONE:
        return None
    if of == "evaluation" and where.slot != NONE:
        return world.device[where.slot]
    if where.home >= 0:
        return world.homes[where.home]
    found = world.disk[at(where.home)]
    if not is_row(found, key, where.generation):
        if world.budget.lost == sc.lost:
            raise Violation("the %s finds %s in disk slot %d, which is not key %d of generation %d"
                            % (of, found, at(where.home), key, where.generation))
        return TORN  # the run ends with an error: the disk lost a write that it reported as done
    return found[0]


# ---------------------------------------------------------------- evaluation


def _evaluates(sc: Scenario, world: World, evaluation: Evaluation) -> Iterator[Move]:
    if evaluation.stage == "disk":
        yield from _evaluates_on_disk(sc, world, evaluation)
        return
    keys = sc.evals[evaluation.next]
    stages = ["share", "loads", "announces", "answer", "reads"]
    if "reader_without_epoch" in sc.flaws:
        stages = ["share", "answer", "reads"]
    if "announces_late" in sc.flaws:
        stages = ["share", "answer", "loads", "announces", "reads"]
    if "epoch_before_lease" in sc.flaws:
        stages = ["loads", "announces", "share", "answer", "reads"]
    stage = stages[0] if evaluation.stage == "idle" else evaluation.stage
    then = (stages + ["idle"])[stages.index(stage) + 1]
    after = evaluation._replace(stage=then)
    dying = evaluation.dying
    if stage == "share" and world.lease == "" and not dying:
        yield Move("evaluation: has a share of the lease",
                   lambda: world._replace(evaluation=after, lease="share"), ())
    elif stage == "loads" and not dying:
        after = after._replace(epoch=world.epoch)
        yield Move("evaluation: epoch is %d" % world.epoch, lambda: world._replace(evaluation=after), ())
    elif stage == "announces":
        readers = replaced(world.readers, EVALUATES, evaluation.epoch)
        after = after._replace(epoch=0)
        yield Move("evaluation: announces epoch %d" % evaluation.epoch,
                   lambda: world._replace(evaluation=after, readers=readers), (), dying)
    elif stage == "answer" and not dying:
        idle = world.worker is not None and not world.worker.doing and not world.cut.committed
        if idle and not any(frame.word in (CLAIMED, DONE) for frame in world.frames):
            where = tuple(world.entries[key] for key in keys)
            after = after._replace(where=where, due=tuple(true_row(world, key) for key in keys))
            yield Move("table worker: answers where keys %s are: %s" % (keys, where),
                       lambda: world._replace(evaluation=after), ())
    elif stage == "reads" and not dying:
        yield Move("evaluation: reads keys %s" % (keys,), _reads, (sc, world))
    if world.budget.reader_kills and stage != stages[0] and not dying:
        budget = world.budget._replace(reader_kills=world.budget.reader_kills - 1)
        after = evaluation._replace(dying=True)
        yield Move("evaluation: SIGKILL", lambda: world._replace(evaluation=after, budget=budget), (), True)
    if dying and "epoch_of_dead_stays" in sc.flaws:
        yield Move("supervisor: reaps the evaluation, its epoch stays",
                   lambda: _over(world._replace(evaluation=evaluation), False), ())
    elif dying and "epoch_cleared_before_reap" in sc.flaws and world.lease == "share":
        cleared = world._replace(readers=replaced(world.readers, EVALUATES, 0), lease="")
        yield Move("supervisor: clears the epoch of the evaluation", lambda: cleared, ())
    elif dying and "epoch_cleared_before_reap" in sc.flaws:
        gone = world._replace(evaluation=Evaluation(len(sc.evals)))
        yield Move("supervisor: reaps the evaluation", lambda: gone, ())
    elif dying:
        yield Move("supervisor: reaps the evaluation, clears its epoch", lambda: _over(world, True), ())


def _reads(sc: Scenario, world: World) -> World:
    """Read all rows, or the rows that are not on disk if there are requests for the others."""
    evaluation = world.evaluation
    later = _on_disk(sc, evaluation)
    for index, key in enumerate(sc.evals[evaluation.next]):
        if index in later:
            continue
        found = read_row(sc, world, key, evaluation.where[index], "evaluation")
        if found == TORN:
            return world._replace(ended=True)
        _compare(sc, evaluation, index, found)
    return world._replace(evaluation=evaluation._replace(stage="disk")) if later else _over(world, True)


def _on_disk(sc: Scenario, evaluation: Evaluation) -> List[int]:
    """Return the indices of the keys whose rows are read by requests."""
    return [index for index, where in enumerate(evaluation.where)
            if sc.asks and where.slot == NONE and where.home <= at(0)]


def _compare(sc: Scenario, evaluation: Evaluation, index: int, found: Any) -> None:
    if found != evaluation.due[index]:
        raise Violation("the evaluation reads %s of key %d, should be %s"
                        % (found, sc.evals[evaluation.next][index], evaluation.due[index]))


def _evaluates_on_disk(sc: Scenario, world: World, evaluation: Evaluation) -> Iterator[Move]:
    """Yield the moves of one batch of requests after the other."""
    asks = world.asks[EVALUATES]
    if asks.doing:
        yield from disk_asks.goes_on(world, EVALUATES)
        return
    if not asks.count:
        keys = sc.evals[evaluation.next]
        indices = _on_disk(sc, evaluation)[evaluation.done:evaluation.done + sc.asks]
        requests = tuple(disk_asks.reads(number, keys[index], at(evaluation.where[index].home),
                                         evaluation.where[index].generation) for number, index in enumerate(indices))
        yield from disk_asks.begins(sc, world, EVALUATES, requests)
        return
    if disk_asks.are_over(sc, world, EVALUATES):
        yield Move("evaluation: takes %d rows out of its buffer" % asks.count, _takes_asked, (sc, world, evaluation))
    if world.budget.interrupts:
        yield Move("evaluation: is interrupted while it waits for the disk", _interrupted, (world,), True)


def _takes_asked(sc: Scenario, world: World, evaluation: Evaluation) -> World:
    if disk_asks.has_failed(sc, world, EVALUATES):
        return world._replace(ended=True)  # the disk lost a row
    asks = world.asks[EVALUATES]
    indices = _on_disk(sc, evaluation)
    done = evaluation.done
    for index, found in zip(indices[done:], asks.rows[:asks.count]):
        _compare(sc, evaluation, index, found)
    done += asks.count
    world = disk_asks.leaves(world, EVALUATES)
    return _over(world, True) if done == len(indices) else world._replace(evaluation=evaluation._replace(done=done))


def _interrupted(world: World) -> World:
    return _over(disk_asks.leaves(fewer_interrupts(world), EVALUATES), True)


def fewer_interrupts(world: World) -> World:
    """Count an interrupt."""
    return world._replace(budget=world.budget._replace(interrupts=world.budget.interrupts - 1))


def _over(world: World, clears: bool) -> World:
    readers = replaced(world.readers, EVALUATES, 0) if clears else world.readers
    return world._replace(evaluation=Evaluation(world.evaluation.next + 1), readers=readers,
                          lease="" if world.lease == "share" else world.lease)


# ---------------------------------------------------------------- saves


def _saves(sc: Scenario, world: World) -> Iterator[Move]:
    save = world.save
    if save is None:
        hold = world.lease == "" and not any(frame.word in (CLAIMED, DONE) for frame in world.frames)
        if world.budget.saves and hold and not world.cut.asked:
            yield Move("save: begins, inside a hold", _begins, (sc, world))
        return
    if save.key == len(save.due):
        after = world._replace(save=None)
        yield Move("save: is over", lambda: after, ())
    elif save.where is None:
        if save.words[save.key]:
            skips = world._replace(save=save._replace(key=save.key + 1), readers=replaced(world.readers, SAVES, 0))
            yield Move("save: key %d is %s" % (save.key, save.words[save.key]), lambda: skips, ())
        elif world.readers[SAVES] or "save_without_epoch" in sc.flaws:
            where = dict(save.seen if "log_seen_early" in sc.flaws else save.log).get(
                save.key, world.entries[save.key])
            if "save_reads_where_it_was" in sc.flaws:
                where = where._replace(home=save.homes[save.key])
            looks = world._replace(save=save._replace(where=where))
            yield Move("save: sees where key %d is: %s" % (save.key, where), lambda: looks, ())
        else:
            begun = world._replace(readers=replaced(world.readers, SAVES, world.epoch))
            if "log_seen_early" in sc.flaws:
                begun = begun._replace(save=save._replace(seen=save.log))
            yield Move("save: announces epoch %d" % world.epoch, lambda: begun, ())
    elif save.row is None and sc.asks and save.where.home <= at(0):
        yield from _saves_from_disk(sc, world, save, save.where)
    elif save.row is None:
        found = world._replace(save=save._replace(row=(_found(sc, world, save),)))
        yield Move("save: reads key %d" % save.key, lambda: found, ())
    else:
        yield Move("save: takes key %d, if no step has kept it" % save.key, _takes, (world, save))


def _saves_from_disk(sc: Scenario, world: World, save: Save, where: Entry) -> Iterator[Move]:
    """Yield the moves of the request for one row."""
    asks = world.asks[SAVES]
    if asks.doing:
        yield from disk_asks.goes_on(world, SAVES)
    elif not asks.count:
        yield from disk_asks.begins(sc, world, SAVES, (disk_asks.reads(0, save.key, at(where.home), where.generation),))
    elif world.readers[SAVES] and "epoch_cleared_when_asked" in sc.flaws:
        cleared = world._replace(readers=replaced(world.readers, SAVES, 0))
        yield Move("save: clears its epoch", lambda: cleared, ())
    else:
        if disk_asks.are_over(sc, world, SAVES):
            yield Move("save: takes key %d out of its buffer" % save.key, _takes_saved, (sc, world, save))
        if world.budget.interrupts:
            yield Move("save: is interrupted while it waits for the disk", _gives_up, (world,), True)


def _takes_saved(sc: Scenario, world: World, save: Save) -> World:
    row = TORN if disk_asks.has_failed(sc, world, SAVES) else world.asks[SAVES].rows[0]
    return disk_asks.leaves(world, SAVES)._replace(save=save._replace(row=(row,)))


def _gives_up(world: World) -> World:
    world = disk_asks.leaves(fewer_interrupts(world), SAVES)
    return world._replace(save=None, readers=replaced(world.readers, SAVES, 0))


def _begins(sc: Scenario, world: World) -> World:
    """Start the save: rows on the device are copied at once, and keys without a row are not saved."""
    due = tuple(true_row(world, key) for key in range(len(world.entries)))
    words = tuple("read" if row is None or entry.slot != NONE else "" for row, entry in zip(due, world.entries))
    budget = world.budget._replace(saves=world.budget.saves - 1)
    homes = tuple(entry.home for entry in world.entries)
    return world._replace(save=Save(due, words, homes), budget=budget)


def _found(sc: Scenario, world: World, save: Save) -> Any:
    """Return the row at the location.  A step may have changed a row at home since; then there is an image."""
    return read_row(sc, world, save.key, save.where, "save")


def _takes(world: World, save: Save) -> World:
    word, row = save.words[save.key], save.row[0]
    world = world._replace(readers=replaced(world.readers, SAVES, 0))
    if word == "" and row == TORN:
        return world._replace(ended=True)
    if word == "" and row != save.due[save.key]:
        raise Violation("the save has %s of key %d, should be %s" % (row, save.key, save.due[save.key]))
    words = replaced(save.words, save.key, word or "read")
    return world._replace(save=save._replace(words=words, key=save.key + 1, where=None, row=None))
