"""Steps of a table worker for all tables of a training ring: look, assign, leave, plan, touch. The step that moves
rows between memory and disk is in ``disk_steps``.

The arguments of each step are the ring segment ``memory``, uint8[bytes], and a TURN per table. This module reads and
fills parts of frames and headers of tables; ``batch_steps`` has the steps of one table. A table that lacks a resource
is skipped until the resource is provided. ``store_words`` stores words last, after the data that they publish.
"""
import numpy as np

from ascpipe.kernels import batch_steps, window
from ascpipe.kernels.asks import LACKS_CHANGES, LACKS_IMAGES, LACKS_NOTHING, LACKS_ROWS, LACKS_SCRATCH
from ascpipe.kernels.atomics import exchange, load_acquire
from ascpipe.kernels.door import inner
from ascpipe.kernels.next_action import NOTHING, PLAN, RETIRE, TOUCH, next_train_actions
from ascpipe.kernels.pinning import lacks_rows, note_wait
from ascpipe.kernels.plan import draft_record
from ascpipe.kernels.planner_memory import header_of, held_rows_of, other_rows_of, planner_at, view_of
from ascpipe.kernels.ring_memory import (
    frame_of,
    ints_of,
    longs_of,
    part_of,
    published_record,
    record_of,
    ring_of,
    table_of,
)
from ascpipe.kernels.ring_scan import look
from ascpipe.kernels.view import apply_moves, apply_outs, undo_changes
from ascpipe.layout.structs import MAX_FRAMES
from ascpipe.layout.ticket import SEQUENCE_MASK
from ascpipe.layout.words import PLAN_OK

LEAVE = 32  #: action of a table whose frame is retired but still in the window

_MOST_INT32 = 2**31 - 1
_NONE = np.uint64(0)


@inner("UniTuple(int64, 2)(uint8[::1], Turn[::1])")
def look_at_tables(memory, turns):
    """Read the states of a ring's frames, and choose the next action of each table.

    Args:
        memory: the ring.
        turns: TURN[tables], which receive the states, the actions and the frames of the actions.

    Returns:
        (number of tables with an action, lowest number of unclaimed plans of any table).
    """
    for i in range(turns.shape[0]):
        turn = turns[i]
        planner = planner_at(turn["planner_at"])
        header = header_of(planner)
        # Load this before the frames: a trainer closes its step and then requests a cut, and the closed step
        # must be seen.
        asked = load_acquire(header, "cut_asked", 0)  # SYNC cut-asked: load
        turn["cut_asked"] = np.int64(asked > load_acquire(header, "cut_applied", 0))
        turn["touch_blocked"] = planner["touch_blocked"]
        turn["is_loading"] = planner["is_loading"]
        turn["lacks"] = LACKS_NOTHING
        turn["done"] = 0
    for i in range(turns.shape[0]):
        look(memory, turns[i]["column"], turns[i])
    ring = ring_of(memory)
    return next_train_actions(turns, ring["look_ahead"], ring["plan_ahead"])


@inner("boolean(Turn, int64)")
def is_due(turn, action):
    """Return True if a table must still carry out ``action`` and does not lack a resource."""
    return turn["action"] == action and turn["done"] == 0 and turn["lacks"] == LACKS_NOTHING


@inner("UniTuple(int64, 2)(uint8[::1], Turn[::1])")
def touch_frames(memory, turns):
    """Find or create the entries of the frames whose action is TOUCH.

    Args:
        memory: the ring.
        turns: TURN[tables], which receive the resource that a touch lacks.

    Returns:
        (number of touched frames, number of tables that lack a resource).
    """
    done = lacking = 0
    for i in range(turns.shape[0]):
        turn = turns[i]
        if not is_due(turn, TOUCH):
            continue
        frame = frame_of(memory, turn["number"])
        part = part_of(memory, frame, turn["column"])
        n = part["unique_count"]
        turn["lacks"] = batch_steps.touch(
            planner_at(turn["planner_at"]), turn["number"], longs_of(memory, frame, part["unique"], n),
            ints_of(memory, frame, part["entries"], n))
        if turn["lacks"] == LACKS_NOTHING:
            part["held"] = n
            turn["done"] = 1
            done += 1
        else:
            lacking += 1
    return done, lacking


@inner("int64(uint8[::1], int64, Planner)")
def base_of_plan(memory, column, planner):
    """Return the base of a plan: the last ticket that the table finishes before the plan.

    The plan is based on the view, which includes the newest pending record. The words of the frames do not matter.

    Args:
        memory: the ring.
        column: column of the table.
        planner: planner of the table.
    """
    if planner["next_record"] > planner["first_record"]:
        newest = planner["record_frame"][(planner["next_record"] - 1) % MAX_FRAMES]
        return frame_of(memory, newest)["ticket"]
    return load_acquire(table_of(memory, column), "finished", 0)


@inner("UniTuple(int64, 6)(uint8[::1], int64, Frame, Part, Planner)")
def draft_plan(memory, number, frame, part, planner):
    """Draft the plan of one frame. New slots and home rows are not assigned yet.

    Args:
        memory: the ring.
        number, frame: number of the frame, and the frame.
        part: part of the table in the frame.
        planner: planner of the table.

    Returns:
        (LACKS_*, status, need, admitted, fresh, loads). The view is unchanged if the plan lacks a resource or
        its status is not PLAN_OK.
    """
    n = part["unique_count"]
    none = np.int64(0)
    most_outs = n if planner["home_rows"] > 0 and planner["device_rows"] > 0 else none
    if n > planner["scratch_room"]:
        return LACKS_SCRATCH, PLAN_OK, none, none, none, none
    if planner["next_change"] - planner["oldest_change"] + n + most_outs > planner["change_room"]:
        return LACKS_CHANGES, PLAN_OK, none, none, none, none
    lacks, status = lacks_rows(planner, number)
    if lacks != LACKS_NOTHING:
        return lacks, PLAN_OK, none, none, none, none
    if part["held"] < n:
        status, need = batch_steps.missing_entries(planner, longs_of(memory, frame, part["unique"], n))
        return LACKS_NOTHING, status, need, none, none, none
    if status != PLAN_OK:
        return LACKS_NOTHING, status, planner["device_rows"] + n, none, none, none
    sequence = min(frame["ticket"] & SEQUENCE_MASK, _MOST_INT32)
    view = view_of(planner)
    admitted, fresh, loads = draft_record(
        planner, view, batch_steps.rules_of(planner, sequence), held_rows_of(planner, number),
        ints_of(memory, frame, part["occurrences"], n), record_of(memory, frame, part, n, n, n))
    status, need = batch_steps.fit(planner, admitted, fresh)
    lacks = batch_steps.lacks_of(planner, fresh, loads) if status == PLAN_OK else LACKS_NOTHING
    if status != PLAN_OK or lacks != LACKS_NOTHING:
        undo_changes(planner, view, n)
    return lacks, status, need, admitted, fresh, loads


@inner("int64(uint8[::1], Turn, Planner)")
def plan_frame(memory, turn, planner):
    """Write the plan of one frame to the frame, or the reason why the frame has no plan.

    Args:
        memory: the ring.
        turn: TURN of the table.
        planner: planner of the table.

    Returns:
        LACKS_*. If the plan lacks a resource, nothing was changed.
    """
    number = turn["number"]
    column = turn["column"]
    frame = frame_of(memory, number)
    part = part_of(memory, frame, column)
    n = part["unique_count"]
    lacks, status, need, admitted, fresh, loads = draft_plan(memory, number, frame, part, planner)
    if lacks != LACKS_NOTHING:
        return lacks
    outs = np.int64(0)
    rows = planner["rows"]
    time = planner["time"]
    part["base"] = base_of_plan(memory, column, planner)
    if status == PLAN_OK:
        outs = batch_steps.complete(planner, number, fresh, record_of(memory, frame, part, n, fresh + loads, n))
        made = record_of(memory, frame, part, n, fresh + loads, outs)
        rows += fresh
        time = max(time, frame["timestamp"])
        need = np.int64(0)
        apply_outs(planner, view_of(planner), other_rows_of(planner, number), made.out_homes)
        apply_moves(made, held_rows_of(planner, number), view_of(planner).rows)
    else:
        made = record_of(memory, frame, part, np.int64(0), np.int64(0), np.int64(0))
        admitted = fresh = loads = np.int64(0)
    planner["home_memory_exhausted"] = 0  # the next plan will try to allocate memory
    batch_steps.add_record(planner, number, made, rows, time)
    window.mark_not_to_plan(planner, number)
    part["horizon"] = frame_of(memory, planner["newest"])["ticket"]
    part["status"] = status
    part["need"] = need
    part["full"] = 1
    part["fresh_count"] = fresh
    part["load_count"] = loads
    part["out_count"] = outs
    part["admitted"] = admitted
    part["rows"] = rows
    part["time"] = time
    return LACKS_NOTHING


@inner("UniTuple(int64, 2)(uint8[::1], Turn[::1])")
def plan_frames(memory, turns):
    """Write a plan to each frame whose action is PLAN.

    Args:
        memory: the ring.
        turns: TURN[tables], which receive the resource that a plan lacks.

    Returns:
        (number of planned frames, number of tables that lack a resource).
    """
    done = lacking = 0
    for i in range(turns.shape[0]):
        turn = turns[i]
        if is_due(turn, PLAN):
            planner = planner_at(turn["planner_at"])
            turn["lacks"] = plan_frame(memory, turn, planner)
            if planner["tier_at"] != 0:
                note_wait(planner, turn)
            if turn["lacks"] == LACKS_ROWS:  # the disk worker provides these rows
                turn["lacks"] = LACKS_NOTHING
                turn["action"] = NOTHING
                continue
            turn["done"] = np.int64(turn["lacks"] == LACKS_NOTHING)
            done += turn["done"]
            lacking += 1 - turn["done"]
    return done, lacking


@inner("void(Table, Part, int64)")
def count_batch(header, part, ticket):
    """Add the counts of one batch to the counters that ``ascpipe status`` shows.

    If the worker is killed before it stores ``retired``, the batch is counted twice.

    Args:
        header: TABLE.
        part: part of the batch.
        ticket: ticket of the batch.
    """
    if header["retired"] >= ticket:
        return
    header["batches"] += 1
    header["ids"] += part["id_count"]
    if part["full"] != 0:
        misses = part["fresh_count"] + part["load_count"]
        header["hits"] += part["admitted"] - misses
        header["misses"] += misses
        header["loads"] += part["load_count"]


@inner("int64(uint8[::1], Turn, Planner)")
def assign_frame(memory, turn, planner):
    """Write the record of one frame to the truth, and drop the record's changes from the view. Return LACKS_*.

    Args:
        memory: the ring.
        turn: TURN of the table.
        planner: planner of the table.
    """
    header = header_of(planner)
    frame = frame_of(memory, turn["number"])
    part = part_of(memory, frame, turn["column"])
    if planner["images_saved_for"] != turn["number"] and (
            # SYNC snapshot-copied: load
            planner["has_images"] != 0 or load_acquire(header, "snapshot_copied", 0) < header["snapshot_bound"]):
        return LACKS_IMAGES
    record = published_record(memory, frame, part)
    ticket = frame["ticket"]
    batch_steps.assign(planner, turn["number"], record, ticket, part["time"])
    batch_steps.forget(planner, np.int64(record.held.shape[0] + record.out_slots.shape[0]))
    count_batch(header, part, ticket)
    header["rows"] = part["rows"]
    header["time"] = part["time"]
    header["retired"] = ticket
    return LACKS_NOTHING


@inner("UniTuple(int64, 2)(uint8[::1], Turn[::1])")
def assign_frames(memory, turns):
    """Write the records of the frames whose action is RETIRE to the truth.

    Args:
        memory: the ring.
        turns: TURN[tables], which receive the resource that an assignment lacks.

    Returns:
        (number of assigned frames, number of tables that lack a resource).
    """
    done = lacking = 0
    for i in range(turns.shape[0]):
        turn = turns[i]
        if is_due(turn, RETIRE):
            turn["lacks"] = assign_frame(memory, turn, planner_at(turn["planner_at"]))
            turn["done"] = np.int64(turn["lacks"] == LACKS_NOTHING)
            done += turn["done"]
            lacking += 1 - turn["done"]
    return done, lacking


@inner("void(Turn[::1], int64)")
def leave_frames(turns, then):
    """Remove each frame whose action is LEAVE from the window, and replace the action by ``then``."""
    for i in range(turns.shape[0]):
        turn = turns[i]
        if turn["action"] == LEAVE:
            planner = planner_at(turn["planner_at"])
            window.leave(planner, turn["number"])
            planner["touch_blocked"] = 0
            turn["action"] = then


@inner("int64(uint8[::1], Turn[::1], int64, int64, uint32)")
def store_words(memory, turns, action, then, word):
    """Store the state ``word``, with a full fence, for each frame whose action was carried out. Return the number of
    frames.

    Args:
        memory: the ring.
        turns: TURN[tables].
        action: the action.
        then: next action of these turns.
        word: new word of the frames.
    """
    stored = 0
    for i in range(turns.shape[0]):
        turn = turns[i]
        if turn["action"] == action and turn["done"]:
            exchange(table_of(memory, turn["column"]), "words", turn["number"] % MAX_FRAMES, np.uint32(word))
            turn["action"] = then
            stored += 1
    return stored
