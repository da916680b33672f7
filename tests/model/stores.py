"""Common parts of the actions of a table worker: location of a frame, its word, masks and names."""

from typing import Optional, Tuple

from .explore import Violation
from .scenario import Scenario
from .state import TOUCHED, Frame, World, with_part, with_table


def mask_bit(sc: Scenario, frame: Frame) -> int:
    """Return the bit of a frame in the window masks."""
    return 1 << ((frame.ticket if "mask_by_ticket" in sc.flaws else frame.number) % sc.positions)


def clear_masks(sc: Scenario, world: World, table: int, index: int) -> World:
    """Remove the frame from the window."""
    frame = world.ring[index]
    masks = list(world.tables[table].masks)
    for number in frame.parts[table].entries:
        masks[number] &= ~mask_bit(sc, frame)
    return collect(with_table(world, table, masks=tuple(masks)), table)


def collect(world: World, table: int) -> World:
    """Free names without trained state that no frame of the window needs."""
    state = world.tables[table]
    if state.cut is not None and state.cut.hidden:
        return world  # the trainer may be writing there
    entries = tuple(
        None if entry is not None and not entry.times and not entry.has_row and not mask else entry
        for entry, mask in zip(state.entries, state.masks)
    )
    return world if entries == state.entries else with_table(world, table, entries=entries)


def locate(sc: Scenario, world: World, table: int) -> Tuple[World, Optional[int]]:
    """Return the index of the frame with which this action began, or None if its position is empty.

    An action writes to the position of its frame, so another ticket in that position would be overwritten.
    """
    _, ticket, number = (world.tables[table].doing or (None, 0, 0))[:3]
    for index, frame in enumerate(world.ring):
        if (frame.number - number) % sc.positions == 0:
            if frame.ticket != ticket and not sc.flaws & {"reuse_dead", "reuse_when_done"}:
                raise Violation("a worker writes for ticket %d into the frame of %d" % (ticket, frame.ticket))
            return world, index
    return with_table(world, table, doing=None), None


def store_word(sc: Scenario, world: World, table: int, word: int) -> World:
    world, index = locate(sc, world, table)
    world = with_table(world, table, doing=None)
    if index is None:
        return world
    old = world.ring[index].parts[table].word
    if old != TOUCHED:
        if not sc.flaws:
            raise Violation("word %d is stored over %d" % (word, old))
        return world
    return with_part(world, index, table, world.ring[index].parts[table]._replace(word=word))
