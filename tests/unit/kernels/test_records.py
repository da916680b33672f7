"""touch, overlay, plan, swaps and retire: the kernels that make and assign records."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import overlay, plan, retire, swaps, touch
from ascpipe.kernels.entry import (
    COUNT,
    FREQUENCY,
    HOME,
    INT32_COLUMNS,
    INT64_COLUMNS,
    KEY,
    LAST,
    SLOT,
    STATE,
    TIMESTAMP,
)
from ascpipe.kernels.index import KeyIndex, find_keys
from ascpipe.words import FREE, NAMED, TRAINED
from tests.reference import overlay as overlay_reference
from tests.reference import plan as plan_reference
from tests.reference import retire as retire_reference
from tests.reference import swaps as swaps_reference
from tests.reference import touch as touch_reference

CAPACITY = 12
SLOTS = 8
KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 9)
STATES = st.sampled_from([FREE, NAMED, TRAINED])
ENTRIES = st.lists(
    st.builds(retire_reference.Entry, st.integers(-1, SLOTS - 1), st.integers(-1, 5), st.integers(0, 9),
              st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), STATES),
    min_size=CAPACITY, max_size=CAPACITY)
MASKS = st.lists(st.integers(0, 7) | st.sampled_from([1 << 63, 1 << 62, 1 << 63 | 1]), min_size=CAPACITY,
                 max_size=CAPACITY)
HELD = st.lists(st.tuples(st.integers(0, CAPACITY - 1), st.integers(1, 5)), max_size=CAPACITY, unique_by=lambda h: h[0])
SOME = st.lists(st.integers(0, CAPACITY - 1), unique=True)


def int32(values):
    return np.array(list(values), np.int32)


def entry_arrays(truth):
    """The truth as the two views of one memory."""
    entries = np.zeros((CAPACITY, INT64_COLUMNS), np.int64)
    entries32 = entries.view(np.int32).reshape(CAPACITY, INT32_COLUMNS)
    for number, entry in enumerate(truth):
        entries[number, COUNT], entries[number, LAST], entries[number, TIMESTAMP] = (
            entry.count, entry.last, entry.timestamp)
        entries32[number, SLOT], entries32[number, HOME] = entry.slot, entry.home
        entries32[number, FREQUENCY], entries32[number, STATE] = entry.frequency, entry.state
    return entries, entries32


def truth_of(entries, entries32):
    return [(int(row32[SLOT]), int(row32[HOME]), int(row[COUNT]), int(row32[FREQUENCY]), int(row[LAST]),
             int(row[TIMESTAMP]), int(row32[STATE])) for row, row32 in zip(entries, entries32)]


def rows_of(truth):
    return [entry.values()[:4] for entry in truth]


class View:
    """The arrays of a view over some truth."""

    def __init__(self, truth, places=4):
        self.entries, self.entries32 = entry_arrays(truth)
        self.overlay, self.ends = np.zeros(CAPACITY, np.int32), np.zeros(2, np.int64)
        self.changes, self.changes32 = self.ring(places)

    @staticmethod
    def ring(places):
        changes = np.zeros((places, overlay.CHANGE_INT64_COLUMNS), np.int64)
        return changes, changes.view(np.int32).reshape(places, overlay.CHANGE_INT32_COLUMNS)

    def arrays(self):
        return self.entries, self.entries32, self.overlay, self.changes, self.changes32

    def make_room(self, n):
        while self.ends[1] - self.ends[0] + n > len(self.changes):
            new = self.ring(2 * len(self.changes))
            overlay.move_changes(self.overlay, self.changes, self.changes32, *new, self.ends)
            self.changes, self.changes32 = new

    def rows(self):
        return [tuple(int(v) for v in overlay.view_of(np.uint64(entry), *self.arrays())) for entry in range(CAPACITY)]


# ---- touch

@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=7, unique=True), max_size=4), st.lists(st.integers(0, 3), unique=True))
def test_touched_keys_get_the_references_entries(batches, given_back):
    entries, entries32 = np.full((40, INT64_COLUMNS), 3, np.int64), np.full((40, INT32_COLUMNS), 3, np.int32)
    index, used, keys = {}, 4, KeyIndex()
    free, count = np.zeros(40, np.int32), np.array([len(given_back)], np.int64)
    free[:len(given_back)] = given_back
    stack = list(given_back)
    for batch in batches:
        unique, held = np.array(batch, np.int64), np.zeros(len(batch), np.int32)
        expected = touch_reference.name_keys(batch, used, stack, index)
        find_keys(unique, len(unique), keys.lines, keys.lines32, held)
        keys.reserve(len(index) + len(batch))
        used = touch.name_keys(unique, used, free, count, keys.lines, keys.lines32, entries, entries32, held)
        assert (held.tolist(), used) == expected
        assert free[:count[0]].tolist() == stack
        assert [int(entries[entry, KEY]) for entry in held] == batch
        assert all(entries32[entry, [STATE, SLOT, HOME]].tolist() == [NAMED, -1, -1] for entry in held)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), STATES), min_size=CAPACITY, max_size=CAPACITY), SOME, st.integers(0, 2))
def test_leaving_the_window_frees_names_that_no_frame_holds(rows, held, place):
    masks = np.array([mask for mask, _ in rows], np.uint64)
    entries, entries32 = entry_arrays([retire_reference.Entry(state=state) for _, state in rows])
    entries[:, KEY] = np.arange(CAPACITY) + 100
    free, count, keys = np.zeros(CAPACITY, np.int32), np.zeros(1, np.int64), np.zeros(CAPACITY, np.int64)
    freed = touch.leave_window(int32(held), masks, np.uint64(1 << place), entries, entries32, keys, free, count)
    expected = touch_reference.leave_window(held, [mask for mask, _ in rows], 1 << place, [state for _, state in rows])
    assert (masks.tolist(), entries32[:, STATE].tolist(), free[:count[0]].tolist()) == expected
    assert keys[:freed].tolist() == [entry + 100 for entry in expected[2]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), STATES), min_size=CAPACITY, max_size=CAPACITY), st.integers(0, CAPACITY))
def test_a_restart_collects_free_entries_and_forgotten_names(rows, used):
    masks = np.array([mask for mask, _ in rows], np.uint64)
    _, entries32 = entry_arrays([retire_reference.Entry(state=state) for _, state in rows])
    stack = np.zeros(CAPACITY, np.int32)
    count = touch.collect_free(used, masks, entries32, stack)
    assert (entries32[:, STATE].tolist(), stack[:count].tolist()) == touch_reference.collect_free(
        used, masks.tolist(), [state for _, state in rows])


@settings(deadline=None)
@given(ENTRIES, st.integers(0, CAPACITY), st.sampled_from([SLOT, HOME]))
def test_rows_are_those_of_trained_keys_that_have_a_place(truth, used, column):
    _, entries32 = entry_arrays(truth)
    assert touch.count_rows(used, column, entries32) == touch_reference.count_rows(
        used, [entry.slot if column == SLOT else entry.home for entry in truth], [entry.state for entry in truth])


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=CAPACITY, max_size=CAPACITY), SOME)
def test_marking_sets_the_bit_of_held_entries_only(masks, held):
    array = np.array(masks, np.uint64)
    touch.mark_window(int32(held), array, np.uint64(2))
    assert array.tolist() == touch_reference.mark_window(held, masks, 2)


# ---- view and plan

@settings(deadline=None)
@given(ENTRIES, st.data())
def test_the_view_is_the_references_whatever_is_put_on_taken_off_or_forgotten(truth, data):
    view, records, changes = View(truth), [], []
    for _ in range(data.draw(st.integers(0, 8))):
        action = data.draw(st.sampled_from(["keys", "keys", "outs", "undo", "forget"]))
        if action in ("keys", "outs"):
            held = data.draw(SOME)
            view.make_room(len(held))
            if action == "outs":
                homes = np.zeros(len(held), np.int32)
                overlay.push_outs(int32(held), homes, *view.arrays(), view.ends)
                assert homes.tolist() == overlay_reference.push_outs(held, rows_of(truth), changes)
            else:
                slots, homes, counts, scores = ([data.draw(st.integers(-1, 9)) for _ in held] for _ in range(4))
                overlay.push_keys(int32(held), int32(slots), int32(homes), np.array(counts, np.int64), int32(scores),
                                  *view.arrays(), view.ends)
                overlay_reference.push_keys(held, slots, homes, counts, scores, rows_of(truth), changes)
            records.append(len(held))
        elif records and action == "undo":
            n = records.pop()
            overlay.undo_changes(n, *view.arrays()[2:], view.ends)
            overlay_reference.undo_changes(n, changes)
        elif records:
            n = records.pop(0)
            for entry, (slot, home, count, frequency) in changes[:n]:  # the truth says so by now
                truth[entry] = retire_reference.Entry(slot, home, count, frequency)
            view.entries[:], _ = entry_arrays(truth)
            overlay.forget_changes(n, view.overlay, view.changes32, view.ends)
            overlay_reference.forget_changes(n, changes)
        expected = [overlay_reference.view_of(entry, rows_of(truth), changes) for entry in range(CAPACITY)]
        assert view.rows() == expected


@settings(deadline=None)
@given(ENTRIES, HELD, st.booleans(), st.booleans(), st.integers(-1, 12), st.integers(0, 2), st.integers(-1, 99))
def test_a_drafted_record_is_the_references(truth, batch, has_homes, has_slots, threshold, coefficient, now):
    view, held, occurrences = View(truth), int32(h for h, _ in batch), int32(o for _, o in batch)
    n = len(batch)
    slots, homes, scores, move_in = (np.zeros(n, np.int32) for _ in range(4))
    counts, tally, rules = np.zeros(n, np.int64), np.zeros(3, np.int64), np.zeros(plan.RULES, np.int64)
    rules[:] = has_homes, has_slots, threshold, coefficient, now
    plan.draft_record(held, occurrences, rules, *view.arrays(), slots, homes, counts, scores, move_in, tally)
    rows = rows_of(truth)
    drafted, fresh, loads, admitted = plan_reference.draft_record(
        [rows[entry] for entry, _ in batch], occurrences.tolist(), has_homes, has_slots, threshold, coefficient, now)
    assert list(zip(slots.tolist(), homes.tolist(), counts.tolist(), scores.tolist())) == drafted
    assert tally.tolist() == [admitted, len(fresh), len(loads)]
    assert move_in[:len(fresh) + len(loads)].tolist() == fresh + loads
    places = int32(range(100, 100 + len(fresh)))
    expected = plan_reference.place_missing(fresh, places.tolist(), slots.tolist())
    plan.place_missing(move_in[:len(fresh)], places, slots)
    assert slots.tolist() == expected


@settings(deadline=None)
@given(ENTRIES, HELD, st.integers(-1, 2), st.integers(0, 2))
def test_a_count_only_record_counts_known_keys_and_with_admission_all(truth, batch, threshold, coefficient):
    view, held, occurrences = View(truth), int32(h for h, _ in batch), int32(o for _, o in batch)
    slots, homes, scores = (np.zeros(len(batch), np.int32) for _ in range(3))
    counts, rules = np.zeros(len(batch), np.int64), np.array([0, 1, threshold, coefficient, -1], np.int64)
    plan.draft_count_only(held, occurrences, rules, view.entries, view.entries32, slots, homes, counts, scores)
    assert list(zip(slots.tolist(), homes.tolist(), counts.tolist(), scores.tolist())) == (
        plan_reference.draft_count_only([rows_of(truth)[entry] for entry, _ in batch],
                                        [truth[entry].state for entry, _ in batch], occurrences.tolist(), threshold,
                                        coefficient))


# ---- swaps

@settings(deadline=None)
@given(MASKS, st.lists(st.integers(-1, CAPACITY - 1), min_size=SLOTS, max_size=SLOTS), SOME, st.integers(0, 63),
       st.sampled_from([0, 1, 3, 7, 1 << 63 | 5, 1 << 62 | 1]), st.integers(0, SLOTS))
def test_victims_are_idle_slots_and_then_those_whose_next_use_is_farthest(masks, slot_entries, own, first, future, n):
    own = [slot if slot < SLOTS else -1 for slot in own]
    marks, masks_array = np.zeros(SLOTS, np.uint8), np.array(masks, np.uint64)
    swaps.mark_slots(int32(own), 1, marks)
    marked = swaps_reference.mark_slots(own, 1, set())
    assert set(np.flatnonzero(marks)) == marked
    candidates, out = int32(reversed(range(SLOTS))), np.full(SLOTS, -7, np.int32)
    kept = swaps.keep_idle(candidates, np.uint64(future), masks_array, marks, int32(slot_entries), out)
    assert out[:kept].tolist() == swaps_reference.keep_idle(candidates.tolist(), future, masks, marked, slot_entries)
    out = np.full(n, -7, np.int32)
    taken = swaps.take_farthest(np.uint64(future), np.uint64(first), masks_array, marks, int32(slot_entries),
                                np.zeros(SLOTS, np.uint8), np.zeros(65, np.int64), out)
    assert out[:taken].tolist() == swaps_reference.take_farthest(n, future, first, masks, marked, slot_entries)
    swaps.mark_slots(int32(own), 0, marks)
    assert set(np.flatnonzero(marks)) == swaps_reference.mark_slots(own, 0, marked)


@settings(deadline=None)
@given(ENTRIES, MASKS, SOME, st.integers(0, 7))
def test_idle_slots_are_those_that_no_frame_to_be_planned_needs(truth, masks, held, future):
    slots, scores = np.zeros(len(held), np.int32), np.zeros(len(held), np.int32)
    idle = swaps.idle_slots(int32(held), np.uint64(future), np.array(masks, np.uint64), *View(truth).arrays(), slots,
                            scores)
    assert list(zip(slots[:idle].tolist(), scores[:idle].tolist())) == swaps_reference.idle_slots(
        held, future, masks, rows_of(truth))


# ---- truth

@settings(deadline=None)
@given(ENTRIES, HELD, st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, CAPACITY - 1)), max_size=4),
       st.integers(-1, 50), st.data())
def test_assigning_a_record_twice_is_assigning_it_once(truth, batch, outs, time, data):
    entries, entries32 = entry_arrays(truth)
    held = [entry for entry, _ in batch]
    slots = data.draw(st.lists(st.integers(-1, SLOTS - 1), min_size=len(batch), max_size=len(batch)))
    homes = data.draw(st.lists(st.integers(-1, 5), min_size=len(batch), max_size=len(batch)))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(batch), max_size=len(batch)))
    slot_entries, expected_slots = np.full(SLOTS, -1, np.int32), [-1] * SLOTS
    for _ in range(2):
        retire.assign_outs(int32(slot for slot, _ in outs), int32(entry for _, entry in outs), entries32, slot_entries)
        retire.assign_keys(int32(held), int32(slots), int32(homes), np.array(counts, np.int64),
                           int32(range(len(batch))), 77, time, entries, entries32, slot_entries)
        retire_reference.assign_outs([slot for slot, _ in outs], [entry for _, entry in outs], truth, expected_slots)
        retire_reference.assign_keys(held, slots, homes, counts, range(len(batch)), 77, time, truth, expected_slots)
        assert truth_of(entries, entries32) == [entry.values() for entry in truth]
        assert slot_entries.tolist() == expected_slots


@settings(deadline=None)
@given(ENTRIES, st.integers(0, CAPACITY))
def test_slots_are_those_of_the_entries_that_say_so(truth, used):
    slot_entries = int32(range(SLOTS))
    retire.occupy_slots(used, entry_arrays(truth)[1], slot_entries)
    assert slot_entries.tolist() == retire_reference.occupy_slots(truth[:used], SLOTS)


@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(-1, CAPACITY - 1)), st.integers(-1, 5))
def test_an_evaluation_sees_the_places_of_rows_of_admitted_keys_only(truth, found, threshold):
    entries, entries32 = entry_arrays(truth)
    out = np.zeros(len(found), np.int32)
    retire.resolve_entries(int32(found), threshold, entries, entries32, out)
    assert out.tolist() == retire_reference.resolve_entries(found, threshold, truth)


@settings(deadline=None)
@given(ENTRIES, MASKS, st.integers(0, CAPACITY), st.integers(0, 12), st.integers(-1, 12), st.integers(0, CAPACITY))
def test_evicting_again_after_a_part_of_it_evicts_the_rest(truth, masks, used, time, age, part):
    entries, entries32 = entry_arrays(truth)
    slot_entries, expected_slots = int32(range(SLOTS)), list(range(SLOTS))
    before = [entry.state for entry in truth]
    dropped = [retire.evict_entries(n, time, age, np.array(masks, np.uint64), entries, entries32, slot_entries)
               for n in (min(part, used), used, used)]
    assert sum(dropped) == retire_reference.evict_entries(used, time, age, masks, truth, expected_slots)
    assert dropped[2] == 0
    assert truth_of(entries, entries32) == [entry.values() for entry in truth]
    assert slot_entries.tolist() == expected_slots
    assert before.count(TRAINED) - entries32[:, STATE].tolist().count(TRAINED) == sum(dropped)
