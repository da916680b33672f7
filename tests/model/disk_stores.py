"""Single stores of the table worker in the model of rows on disk, with the changes of its private memory."""

from typing import Any, Callable, Dict

from .disk_state import DISK_SLOT, HOME_ROW, NONE, PLANNED, READ, TOUCHED, Cut, Entry, Frame, Scenario, World, at
from .state import replaced


def with_worker(world: World, **changes: Any) -> World:
    """Change the table worker's private memory."""
    return world._replace(worker=world.worker._replace(**changes))


def with_entry(world: World, key: int, **changes: int) -> World:
    """Change an entry."""
    return world._replace(entries=replaced(world.entries, key, world.entries[key]._replace(**changes)))


def quarantine(world: World, what: str, number: int) -> World:
    """Put a row or slot into quarantine until all readers that began before have ended.

    Later readers cannot know it.
    """
    quarantined = world.worker.quarantined | {(what, number, world.epoch)}
    return with_worker(world, quarantined=quarantined)._replace(epoch=world.epoch + 1)


def free(sc: Scenario, world: World, what: str, number: int) -> World:
    """Free a row or slot that no process reads.  Its content is removed, except on a disk that loses writes."""
    if what == HOME_ROW:
        world = world._replace(homes=replaced(world.homes, number, None))
        return with_worker(world, homes=world.worker.homes | {number})
    if not sc.lost:
        world = world._replace(disk=replaced(world.disk, number, None))
    return with_worker(world, slots=world.worker.slots | {number})


def freed_or_quarantined(sc: Scenario, world: World, what: str, number: int) -> World:
    """Free a row or slot that readers may know."""
    if ("home_row_skips_quarantine" if what == HOME_ROW else "disk_slot_skips_quarantine") in sc.flaws:
        return free(sc, world, what, number)
    return quarantine(world, what, number)


def _leave(sc: Scenario, world: World, home: int) -> World:
    """Release the location that an entry had until now."""
    if home == NONE:
        return world
    return freed_or_quarantined(sc, world, *((HOME_ROW, home) if home >= 0 else (DISK_SLOT, at(home))))


def _cancel(sc: Scenario, world: World, number: int, key: int) -> World:
    """Raise the entry's generation, so that the request no longer counts, for any process."""
    if "cancel_is_private" in sc.flaws:
        return with_worker(world, noted=world.worker.noted | {number})
    if "cancel_marks_request" in sc.flaws:
        marked = world.requests[number]._replace(cancelled=True)
        return world._replace(requests=replaced(world.requests, number, marked))
    if sc.flaws & {"pin_does_not_cancel", "cancel_by_window"}:
        return world
    return with_entry(world, key, generation=world.entries[key].generation + 1)


def _touched(sc: Scenario, world: World, ticket: int) -> World:
    return world._replace(frames=world.frames + (Frame(ticket),), next=ticket + 1)


def _pin(sc: Scenario, world: World, ticket: int) -> World:
    return with_worker(world, pinned=ticket)


def _store(sc: Scenario, world: World, number: int) -> World:
    """Complete a spill: one store writes location and generation, and only then is the home row released."""
    request = world.requests[number]
    world = with_entry(world, request.key, home=at(request.slot), generation=request.generation)
    return world if "freed_before_write" in sc.flaws else freed_or_quarantined(sc, world, HOME_ROW, request.home)


def _store_home(sc: Scenario, world: World, number: int) -> World:
    return with_entry(world, world.requests[number].key, home=at(world.requests[number].slot))


def _store_generation(sc: Scenario, world: World, number: int) -> World:
    request = world.requests[number]
    world = with_entry(world, request.key, generation=request.generation)
    return freed_or_quarantined(sc, world, HOME_ROW, request.home)


def _empty(sc: Scenario, world: World, number: int, what: str, reserved: int) -> World:
    """Empty a request.  ``what`` was reserved for this request only, and no reader has known it."""
    world = world._replace(requests=replaced(world.requests, number, None))
    return free(sc, world, what, reserved) if what else world


def _assign_slot(sc: Scenario, world: World, key: int, slot: int) -> World:
    return with_entry(world, key, slot=slot)


def _assign_home(sc: Scenario, world: World, key: int, home: int) -> World:
    """Assign a home row.  The step may have changed the row, so the row on disk is outdated."""
    old = world.entries[key].home
    world = with_entry(world, key, home=home)
    if old <= at(0) and "freed_before_store" not in sc.flaws and "slot_freed_at_arrival" not in sc.flaws:
        return _leave(sc, world, old)
    return world


def _retired(sc: Scenario, world: World, ticket: int) -> World:
    return world._replace(frames=world.frames[1:])


def _revoke(sc: Scenario, world: World, ticket: int) -> World:
    """Revoke by a CAS from PLANNED.  Home rows of new keys are freed, and fetched rows are kept."""
    for index, frame in enumerate(world.frames):
        if frame.ticket == ticket and frame.word == PLANNED:
            after = frame._replace(word=TOUCHED, record=None)
            owned = {entry.home for entry in world.entries}
            owned |= {request.home for request in world.requests if request is not None and request.kind == READ}
            owned |= {home for other in world.frames if other.record is not None and other != frame
                      for _, _, home in other.record.values}
            world = world._replace(frames=replaced(world.frames, index, after))
            for _, _, home in frame.record.values:
                if home not in owned:
                    world = free(sc, world, HOME_ROW, home)
    return world


def _log(sc: Scenario, world: World, key: int) -> World:
    """Log the location of a row for the save before its key is evicted.

    The first log entry counts, even of a dead worker.
    """
    entry, save = world.entries[key], world.save
    if save is None or entry.home == NONE or any(key == logged for logged, _ in save.log):
        return world
    return world._replace(save=save._replace(log=save.log + ((key, entry),)))


def _clear(sc: Scenario, world: World, key: int) -> World:
    slot = world.entries[key].slot
    if slot != NONE:
        world = world._replace(device=replaced(world.device, slot, None))
    return with_entry(world, key, slot=NONE)


def _evict(sc: Scenario, world: World, key: int) -> World:
    """Reset the entry.  Its generation increases, so earlier requests no longer count."""
    old = world.entries[key]
    generation = 0 if "cut_resets_generation" in sc.flaws else old.generation + 1
    world = world._replace(entries=replaced(world.entries, key, Entry(NONE, NONE, generation)))
    return _leave(sc, world, old.home)


def _raise(sc: Scenario, world: World) -> World:
    """Raise all generations after a load that was given up, because some of its rows may be on disk."""
    return world._replace(entries=tuple(entry._replace(generation=entry.generation + 1) for entry in world.entries))


def _untouch(sc: Scenario, world: World) -> World:
    """Invalidate entry numbers: frames are touched again, and none is pinned."""
    if "untouch_keeps_pins" not in sc.flaws:
        world = with_worker(world, pinned=0)
    return world._replace(frames=(), next=world.frames[0].ticket if world.frames else world.next)


def _applied(sc: Scenario, world: World) -> World:
    return world._replace(cut=Cut(world.cut.number + 1), lease="")


DO: Dict[str, Callable[..., World]] = {
    "cancel": _cancel, "touched": _touched, "pin": _pin, "store": _store, "store home": _store_home,
    "store generation": _store_generation, "empty": _empty, "slot": _assign_slot, "home": _assign_home,
    "quarantine": lambda sc, world, what, number: quarantine(world, what, number),
    "retired": _retired, "revoke": _revoke, "log": _log, "clear": _clear, "evict": _evict,
    "untouch": _untouch, "raise": _raise, "applied": _applied,
}
LABELS: Dict[str, str] = {
    "cancel": "does not want request %d any more, raises the generation of key %d",
    "touched": "TOUCHED %d", "pin": "%d is pinned",
    "store": "stores disk slot and generation of request %d in the entry",
    "store home": "stores the disk slot of request %d in the entry",
    "store generation": "stores the generation of request %d in the entry",
    "empty": "request %d is EMPTY, free: %s %d", "slot": "assigns key %d device slot %d",
    "home": "assigns key %d home row %d", "quarantine": "%s %d is in quarantine", "retired": "RETIRED %d",
    "revoke": "revokes %d",
    "log": "logs for the save where key %d is", "clear": "clears the device slot of key %d", "evict": "drops key %d",
    "untouch": "gives touches up", "raise": "raises all generations", "applied": "stores APPLIED",
}
