"""The trainer in the model of rows on disk: steps, dropped tickets, cuts, and images for a save."""

from typing import Any, Iterator, List

from . import disk_asks
from .disk_readers import SAVES, fewer_interrupts
from .disk_state import CLAIMED, DONE, PLANNED, Scenario, World, at
from .explore import Move, Violation
from .state import replaced


def moves(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of the trainer's threads, without readers."""
    yield from _steps(sc, world)
    yield from _asks_cut(sc, world)


def _steps(sc: Scenario, world: World) -> Iterator[Move]:
    frame = next((frame for frame in world.frames if frame.word < DONE and frame.ticket not in world.gone), None)
    if frame is not None and frame.word == CLAIMED:
        yield Move("trainer: moves rows of %d and trains it, DONE" % frame.ticket, _train, (sc, world))
    if frame is not None and frame.word == CLAIMED and world.budget.asides:
        frames = tuple(frame._replace(word=PLANNED) if other == frame else other for other in world.frames)
        budget = world.budget._replace(asides=world.budget.asides - 1)
        yield Move("trainer: puts its claim of %d aside" % frame.ticket,
                   lambda: world._replace(frames=frames, lease="", budget=budget), (), True)
    left = any(ticket not in world.gone and ticket > world.finished for ticket in range(1, len(sc.batches) + 1))
    if sc.turn and world.lease == "" and left:
        after = world._replace(lease="step")
        yield Move("trainer: has claimed another table", lambda: after, (), True)
    if sc.turn and world.lease == "step" and not left:
        over = world._replace(lease="")
        yield Move("trainer: ends", lambda: over, ())
    if frame is not None and frame.word == PLANNED and frame.record.base == world.finished and (
            world.lease == "" or (sc.turn and world.lease == "step")):
        claimed = frame._replace(word=CLAIMED)
        ring = tuple(claimed if other == frame else other for other in world.frames)
        yield Move("trainer: claims %d" % frame.ticket, lambda: world._replace(frames=ring, lease="step"), ())
    if world.budget.drops:
        for ticket in range(world.finished + 1, len(sc.batches) + 1):
            word = next((frame.word for frame in world.frames if frame.ticket == ticket), 0)
            if word <= PLANNED and ticket not in world.gone:
                budget = world.budget._replace(drops=world.budget.drops - 1)
                gone = world._replace(gone=world.gone | {ticket}, budget=budget)
                yield Move("trainer: closes %d without training it" % ticket, lambda gone=gone: gone, (), True)
                break


def _train(sc: Scenario, world: World) -> World:
    """Move rows out and in, and update them; compare each row with the oracle."""
    index = next(index for index, frame in enumerate(world.frames) if frame.word == CLAIMED)
    frame = world.frames[index]
    device, homes, rows = list(world.device), list(world.homes), list(world.rows)
    save = world.save
    for slot, key, home in frame.record.outs:
        save = _kept(sc, save, key, home, homes)
        homes[home], device[slot] = device[slot], None
    for slot, key, home, new in frame.record.comes:
        if new and rows[key][1] is None:
            rows[key] = (rows[key][0], 0)
        used, number = (device, slot) if sc.device else (homes, home)
        used[number] = (key, rows[key][0], 0) if new else homes[home]
    for key, slot, home in frame.record.values:
        life, updates = rows[key]
        used, number = (device, slot) if sc.device else (homes, home)
        if used[number] != (key, life, updates):
            raise Violation("step %d finds %s for key %d, should be %s"
                            % (frame.ticket, used[number], key, (key, life, updates)))
        rows[key] = (life, updates + 1)
        if not sc.device:
            save = _kept(sc, save, key, home, homes)
        used[number] = (key, life, updates + 1)
    frames = replaced(world.frames, index, frame._replace(word=DONE))
    return world._replace(device=tuple(device), homes=tuple(homes), rows=tuple(rows), frames=frames, save=save,
                          finished=frame.ticket, lease="")


def _asks_cut(sc: Scenario, world: World) -> Iterator[Move]:
    if world.cut.number < len(sc.cuts) and not world.cut.asked and world.lease == "":
        after = world._replace(cut=world.cut._replace(asked=True), lease="cut")
        yield Move("trainer: asks for a cut: %s %s" % sc.cuts[world.cut.number], lambda: after, ())
    if world.cut.granted and not world.cut.filled:
        yield from _loads(sc, world)


def _loads(sc: Scenario, world: World) -> Iterator[Move]:
    """Yield the moves of a load: first rows on disk are written, then the other rows and the entries.

    The code writes entries first.  Both orders are equivalent, because no process reads the table before it is filled.
    """
    asks, written = world.asks[SAVES], world.cut.written
    keys = [key for key in range(len(world.entries)) if sc.asks and key >= sc.homes]
    if asks.doing:
        yield from disk_asks.goes_on(world, SAVES)
    elif not asks.count and written < len(keys):
        chunk = keys[written:written + sc.asks]
        requests = tuple(disk_asks.writes(number, key, key - sc.homes, world.entries[key].generation)
                         for number, key in enumerate(chunk))
        rows = tuple((key, world.rows[key][0], 0) for key in chunk)
        yield from disk_asks.begins(sc, world, SAVES, requests, rows)
    elif not asks.count:
        yield Move("trainer: fills the table", _fill, (sc, world))
    else:
        if disk_asks.are_over(sc, world, SAVES):
            failed = disk_asks.has_failed(sc, world, SAVES)
            left = disk_asks.leaves(world, SAVES)
            then = left._replace(cut=world.cut._replace(written=written + asks.count))
            yield Move("trainer: %d rows are on disk" % asks.count if not failed else "trainer: gives the load up",
                       lambda: _given_up(left) if failed else then, ())
        if world.budget.interrupts:
            left = disk_asks.leaves(fewer_interrupts(world), SAVES)
            yield Move("trainer: is interrupted while it waits for the disk, gives the load up",
                       lambda: _given_up(left), (), True)


def _given_up(world: World) -> World:
    """Return the table to the worker without entries.  The rows of the next load differ."""
    rows = tuple((life + 1, updates) for life, updates in world.rows)
    return world._replace(rows=rows, cut=world.cut._replace(filled=True))


def _fill(sc: Scenario, world: World) -> World:
    """Fill entry i and home row i, or entry i with a row on disk; generations are kept."""
    entries, homes, rows = list(world.entries), list(world.homes), list(world.rows)
    for key in range(len(entries) if sc.asks else min(sc.homes, len(entries))):
        at_home = key < sc.homes
        entries[key] = entries[key]._replace(home=key if at_home else at(key - sc.homes))
        rows[key] = (rows[key][0], 0)
        if at_home:
            homes[key] = (key, rows[key][0], 0)
    return world._replace(entries=tuple(entries), homes=tuple(homes), rows=tuple(rows),
                          cut=world.cut._replace(filled=True))


def _kept(sc: Scenario, save: Any, key: int, home: int, homes: List[Any]) -> Any:
    """Store an image of a home row for the save before a step changes it, by the number of its entry."""
    if save is None:
        return None
    if "log_by_home_row" in sc.flaws:
        if home not in save.homes:
            return save
        key = save.homes.index(home)
    if save.words[key] or (key in dict(save.log) and "new_row_is_kept" not in sc.flaws):
        return save
    if homes[home] != save.due[key]:
        raise Violation("the image of key %d is %s, should be %s" % (key, homes[home], save.due[key]))
    return save._replace(words=replaced(save.words, key, "image"))
