"""Plain-Python twins of ``ascpipe/kernels/ring_steps.py``, for a ``ring_scan.Ring`` and a ``batch_steps.Table`` per
turn.
"""
from ascpipe.kernels.asks import LACKS_CHANGES, LACKS_IMAGES, LACKS_NOTHING, LACKS_ROWS, LACKS_SCRATCH
from ascpipe.layout.words import PLAN_OK
from tests.reference import batch_steps, next_action, pinning, ring_scan, view, window
from tests.reference.next_action import NOTHING, PLAN, RETIRE, TOUCH
from tests.reference.plan import draft_record

LEAVE = 32
SEQUENCES = 2**48


class Turn:
    """A table in its ring, and its next action."""

    def __init__(self, table, column):
        self.table, self.column = table, column
        self.action, self.number, self.lacks, self.done = NOTHING, 0, LACKS_NOTHING, False
        self.is_loading = False

    def part(self, ring):
        return ring.frame(self.number).parts[self.column]


def look_at_tables(ring, turns):
    """Choose the next action of each table.

    Returns:
        (number of tables with an action, least number of plans of a table).
    """
    looks = [ring_scan.look(ring, turn.column) for turn in turns]
    chosen, plans = next_action.next_train_actions(
        [(*seen[1:], turn.table.cut_asked, turn.table.touch_blocked, turn.table.is_loading)
         for seen, turn in zip(looks, turns)], ring.look_ahead, ring.plan_ahead)
    for turn, (action, place) in zip(turns, chosen):
        turn.action, turn.number, turn.lacks, turn.done = action, ring.head + place, LACKS_NOTHING, False
        turn.is_loading = turn.table.is_loading
    return sum(action != NOTHING for action, _ in chosen), plans


def is_due(turn, action):
    return turn.action == action and not turn.done and turn.lacks == LACKS_NOTHING


def together(turns, action, step):
    """Execute a step for all tables whose action is due.

    Returns:
        (number of tables that did it, number of tables that lack something).
    """
    due = [turn for turn in turns if is_due(turn, action)]
    for turn in due:
        turn.lacks = step(turn)
        turn.done = turn.lacks == LACKS_NOTHING
    done = sum(turn.done for turn in due)
    return done, len(due) - done


def touch_frames(ring, turns):
    def step(turn):
        part = turn.part(ring)
        lacks, entries = batch_steps.touch(turn.table, turn.number, part.unique)
        part.entries = part.entries if entries is None else entries
        return lacks

    return together(turns, TOUCH, step)


def base_of_plan(ring, turn):
    if turn.table.pending:
        return ring.frame(turn.table.pending[-1][0]).ticket
    return ring.tables[turn.column].finished


def draft_plan(ring, turn):
    """Return (lacks, status, need, drafted (admitted, fresh, loads, rows))."""
    table, part, frame = turn.table, turn.part(ring), ring.frame(turn.number)
    n, nothing = len(part.unique), (0, [], [], [])
    if n > table.scratch_room:
        return LACKS_SCRATCH, PLAN_OK, 0, nothing
    if len(table.changes) + (2 * n if table.home_rows and table.device_rows else n) > table.change_room:
        return LACKS_CHANGES, PLAN_OK, 0, nothing
    lacks, status = pinning.lacks_rows(table, turn.number)
    if lacks != LACKS_NOTHING:
        return lacks, PLAN_OK, 0, nothing
    if len(part.entries) < n:
        return (LACKS_NOTHING, *batch_steps.missing_entries(table, part.unique), nothing)
    if status != PLAN_OK:
        return LACKS_NOTHING, status, table.device_rows + n, nothing
    rules = batch_steps.rules_of(table, min(frame.ticket % SEQUENCES, 2**31 - 1))
    rows, fresh, loads, admitted = draft_record([table.view[entry] for entry in part.entries], part.occurrences, *rules)
    status, need = batch_steps.fit(table, admitted, len(fresh))
    lacks = batch_steps.lacks_of(table, len(fresh), len(loads)) if status == PLAN_OK else LACKS_NOTHING
    return lacks, status, need, (admitted, fresh, loads, rows)


def plan_frame(ring, turn):
    """Plan a frame and return what the plan lacks; in this case nothing has changed."""
    table, part, frame = turn.table, turn.part(ring), ring.frame(turn.number)
    lacks, status, need, (admitted, fresh, loads, rows) = draft_plan(ring, turn)
    if lacks != LACKS_NOTHING:
        return lacks
    base, time, record = base_of_plan(ring, turn), table.time, batch_steps.Record([])
    if status == PLAN_OK:
        record, need, time = batch_steps.Record(part.entries), 0, max(time, frame.timestamp)
        record.slots, record.homes, record.counts, record.frequencies = ([row[i] for row in rows] for i in range(4))
        record.move_in = fresh + loads
        for entry, row in zip(part.entries, rows):
            view.keep_row(entry, table.view, table.changes)
            table.view[entry] = (*table.view[entry][:2], *row[2:])
        batch_steps.complete(table, turn.number, len(fresh), record)
        record.out_homes = view.apply_outs(record.out_entries, table.view, table.changes)
        view.apply_moves(record.move_in, record.held, record.slots, record.homes, table.view)
    else:
        admitted, fresh, loads = 0, [], []
    table.home_memory_exhausted = False
    batch_steps.add_record(table, turn.number, record, table.rows + len(fresh), time)
    window.mark_not_to_plan(table, turn.number)
    part.record = record
    part.fields.update(
        base=base, horizon=ring.frame(max(table.window)).ticket, status=status, need=need, full=1,
        fresh_count=len(fresh), load_count=len(loads), out_count=len(record.out_slots), admitted=admitted,
        rows=table.rows, time=time)
    return LACKS_NOTHING


def plan_frames(ring, turns):
    planned = [turn for turn in turns if turn.action == PLAN and not turn.done]
    made = together(turns, PLAN, lambda turn: plan_frame(ring, turn))
    for turn in planned:
        if turn.table.tier:
            pinning.note_wait(turn.table.tier, turn)
    waiting = [turn for turn in turns if turn.lacks == LACKS_ROWS]
    for turn in waiting:
        turn.lacks, turn.action = LACKS_NOTHING, NOTHING
    return made[0], made[1] - len(waiting)


def count_batch(header, part, ticket):
    if ticket > header["retired"]:
        loads, admitted = part.fields["load_count"], part.fields["admitted"]
        misses = part.fields["fresh_count"] + loads
        header["batches"] += 1
        header["ids"] += len(part.ids)
        if part.fields["full"]:
            header["hits"] += admitted - misses
            header["misses"] += misses
            header["loads"] += loads


def assign_frame(ring, turn):
    """Assign a record and return what the assignment lacks."""
    table, part, ticket = turn.table, turn.part(ring), ring.frame(turn.number).ticket
    if table.has_images and table.images_saved_for != turn.number:
        return LACKS_IMAGES
    batch_steps.assign(table, part.record, ticket, part.fields["time"])
    batch_steps.forget(table, len(part.record.held) + len(part.record.out_slots))
    count_batch(table.header, part, ticket)
    table.header.update(rows=part.fields["rows"], time=part.fields["time"], retired=ticket)
    return LACKS_NOTHING


def assign_frames(ring, turns):
    return together(turns, RETIRE, lambda turn: assign_frame(ring, turn))


def leave_frames(turns, then):
    for turn in turns:
        if turn.action == LEAVE:
            window.leave(turn.table, turn.number)
            turn.table.touch_blocked = False
            turn.action = then


def store_words(ring, turns, action, then, word):
    """Store words and return their number."""
    chosen = [turn for turn in turns if turn.action == action and turn.done]
    for turn in chosen:
        ring.tables[turn.column].words[turn.number] = word
        turn.action = then
    return len(chosen)
