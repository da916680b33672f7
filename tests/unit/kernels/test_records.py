"""touch, view, plan, swaps and retire: the kernels that make and assign records."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import plan, retire, swaps, touch, view
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
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import KeyIndex
from ascpipe.layout.words import FREE, NAMED, TRAINED
from tests.reference import plan as plan_reference
from tests.reference import retire as retire_reference
from tests.reference import swaps as swaps_reference
from tests.reference import touch as touch_reference
from tests.reference import view as view_reference

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


def masks_of(masks):
    """The masks as the view has them."""
    array = np.zeros((CAPACITY, view.INT64_COLUMNS), np.uint64)
    array[:, view.MASK] = masks
    return array


class View:
    """The arrays of a view that says what some truth says."""

    def __init__(self, truth, masks=(0,) * CAPACITY, places=4):
        self.masks = masks_of(masks)
        self.view = self.masks.view(np.int64)
        self.view32 = self.masks.view(np.int32)
        for row, row32, entry in zip(self.view, self.view32, truth):
            row[view.COUNT], row32[view.SLOT], row32[view.HOME], row32[view.FREQUENCY] = (
                entry.count, entry.slot, entry.home, entry.frequency)
        self.ends = np.zeros(2, np.int64)
        self.changes = self.ring(places)

    @staticmethod
    def ring(places):
        return np.zeros((places, view.CHANGE_INT64_COLUMNS), np.int64)

    def ring_of_changes(self):
        return self.changes, self.ends

    def arrays(self):
        return self.masks, self.view, self.view32

    def make_room(self, n):
        while self.ends[1] - self.ends[0] + n > len(self.changes):
            new = self.ring(2 * len(self.changes))
            view.move_changes(self.changes, new, self.ends)
            self.changes = new

    def rows(self):
        return [(int(row32[view.SLOT]), int(row32[view.HOME]), int(row[view.COUNT]), int(row32[view.FREQUENCY]))
                for row, row32 in zip(self.view, self.view32)]


# ---- touch

@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=7, unique=True), max_size=4), st.lists(st.integers(0, 3), unique=True))
def test_touched_keys_get_the_references_entries(batches, given_back):
    entries, entries32 = np.full((40, INT64_COLUMNS), 3, np.int64), np.full((40, INT32_COLUMNS), 3, np.int32)
    masks = np.full((40, view.INT64_COLUMNS), 3, np.uint64)
    index, used, keys = {}, 4, KeyIndex(spread_of(1))
    free, count = np.zeros(40, np.int32), np.array([len(given_back)], np.int64)
    free[:len(given_back)] = given_back
    stack = list(given_back)
    for batch in batches:
        unique, held = np.array(batch, np.int64), np.zeros(len(batch), np.int32)
        expected = touch_reference.name_keys(batch, used, stack, index)
        keys.find(unique, held)
        keys.reserve(len(index) + len(batch))
        used = touch.name_keys(unique, used, free, count, keys.lines, keys.lines32, keys.spread, entries, entries32,
                               masks.view(np.int64), masks.view(np.int32), held)
        assert (held.tolist(), used) == expected
        assert free[:count[0]].tolist() == stack
        assert [int(entries[entry, KEY]) for entry in held] == batch
        assert all(entries32[entry, [STATE, SLOT, HOME]].tolist() == [NAMED, -1, -1] for entry in held)
        assert all(masks.view(np.int64)[entry, [view.MASK, view.COUNT]].tolist() == [3, 0] for entry in held)
        assert all(masks.view(np.int32)[entry, view.SLOT:view.FREQUENCY + 1].tolist() == [-1, -1, 0] for entry in held)


@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 7), min_size=CAPACITY, max_size=CAPACITY), SOME, st.integers(0, 2))
def test_leaving_the_window_frees_names_that_no_frame_holds(truth, masks, held, place):
    truth = [entry if entry.state == TRAINED else retire_reference.Entry(state=entry.state) for entry in truth]
    seen, (entries, entries32) = View(truth, masks), entry_arrays(truth)
    entries[:, KEY] = np.arange(CAPACITY) + 100
    free, count, keys = np.zeros(CAPACITY, np.int32), np.zeros(1, np.int64), np.zeros(CAPACITY, np.int64)
    freed = touch.leave_window(int32(held), seen.masks, np.uint64(1 << place), entries, entries32, keys, free, count)
    expected = touch_reference.leave_window(held, masks, 1 << place, [entry.state for entry in truth])
    assert (seen.masks[:, view.MASK].tolist(), entries32[:, STATE].tolist(), free[:count[0]].tolist()) == expected
    assert keys[:freed].tolist() == [entry + 100 for entry in expected[2]]
    assert seen.rows() == rows_of(truth)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=CAPACITY, max_size=CAPACITY), SOME)
def test_marking_sets_the_bit_of_held_entries_only(masks, held):
    array = masks_of(masks)
    touch.mark_window(int32(held), array, np.uint64(2))
    assert array.tolist() == masks_of(touch_reference.mark_window(held, masks, 2)).tolist()


# ---- view and plan

@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 2), min_size=CAPACITY, max_size=CAPACITY), st.integers(0, CAPACITY),
       st.sampled_from([SLOT, HOME]))
def test_a_view_is_derived_from_the_truth_and_free_entries_and_forgotten_names_are_collected(truth, masks, used, place):
    seen, (entries, entries32) = View([retire_reference.Entry(7, 7, 7, 7)] * CAPACITY, masks), entry_arrays(truth)
    stack = np.zeros(CAPACITY, np.int32)
    free, rows = view.derive_view(used, place, seen.masks, entries, entries32, seen.view, seen.view32, stack)
    states, known, expected_free, expected_rows = view_reference.derive_view(
        used, [entry.slot if place == SLOT else entry.home for entry in truth], masks, rows_of(truth),
        [entry.state for entry in truth])
    assert (entries32[:, STATE].tolist(), stack[:free].tolist(), rows) == (states, expected_free, expected_rows)
    assert seen.rows() == [known.get(entry, (7, 7, 7, 7)) for entry in range(CAPACITY)]
    assert seen.masks[:, view.MASK].tolist() == masks


@settings(deadline=None)
@given(ENTRIES, MASKS, st.data())
def test_the_view_is_the_references_whatever_is_put_on_taken_off_or_forgotten(truth, masks, data):
    seen, rows, records, changes = View(truth, masks), rows_of(truth), [], []
    for _ in range(data.draw(st.integers(0, 8))):
        action = data.draw(st.sampled_from(["keys", "keys", "outs", "undo", "forget"]))
        if action in ("keys", "outs"):
            held = data.draw(SOME)
            seen.make_room(len(held))
            if action == "outs":
                homes = np.zeros(len(held), np.int32)
                view.put_outs(int32(held), homes, *seen.arrays(), *seen.ring_of_changes())
                assert homes.tolist() == view_reference.put_outs(held, rows, changes)
            else:
                slots, homes, counts, scores = ([data.draw(st.integers(-1, 9)) for _ in held] for _ in range(4))
                view.put_keys(int32(held), int32(slots), int32(homes), np.array(counts, np.int64), int32(scores),
                              *seen.arrays(), *seen.ring_of_changes())
                view_reference.put_keys(held, slots, homes, counts, scores, rows, changes)
            records.append(len(held))
        elif records and action == "undo":
            n = records.pop()
            view.undo_changes(n, seen.view, seen.view32, *seen.ring_of_changes())
            view_reference.undo_changes(n, rows, changes)
        elif records:
            n = records.pop(0)
            seen.ends[view.HEAD] += n
            del changes[:n]
        assert seen.rows() == rows
        assert seen.masks[:, view.MASK].tolist() == masks


@settings(deadline=None)
@given(ENTRIES, HELD, st.booleans(), st.booleans(), st.integers(-1, 12), st.integers(0, 2), st.integers(-1, 99))
def test_a_drafted_record_is_the_references(truth, batch, has_homes, has_slots, threshold, coefficient, now):
    held, occurrences = int32(h for h, _ in batch), int32(o for _, o in batch)
    n = len(batch)
    slots, homes, scores, move_in = (np.zeros(n, np.int32) for _ in range(4))
    counts, tally, rules = np.zeros(n, np.int64), np.zeros(3, np.int64), np.zeros(plan.RULES, np.int64)
    rules[:] = has_homes, has_slots, threshold, coefficient, now
    seen, rows = View(truth, places=16), rows_of(truth)
    plan.draft_record(held, occurrences, rules, *seen.arrays(), *seen.ring_of_changes(), slots, homes, counts, scores,
                      move_in, tally)
    drafted, fresh, loads, admitted = plan_reference.draft_record(
        [rows[entry] for entry, _ in batch], occurrences.tolist(), has_homes, has_slots, threshold, coefficient, now)
    assert list(zip(slots.tolist(), homes.tolist(), counts.tolist(), scores.tolist())) == drafted
    assert tally.tolist() == [admitted, len(fresh), len(loads)]
    assert move_in[:len(fresh) + len(loads)].tolist() == fresh + loads
    expected_rows = list(rows)
    for (entry, _), (_, _, count, score) in zip(batch, drafted):
        expected_rows[entry] = (*rows[entry][:2], count, score)
    assert seen.rows() == expected_rows
    moved, places = move_in[:len(fresh) + len(loads)], (held, slots + 50, homes + 60)
    view.put_places(moved, *places, seen.view32)
    view_reference.put_places(moved.tolist(), *[place.tolist() for place in places], expected_rows)
    assert seen.rows() == expected_rows
    view.undo_changes(n, seen.view, seen.view32, *seen.ring_of_changes())
    assert seen.rows() == rows
    places = int32(range(100, 100 + len(fresh)))
    expected = plan_reference.place_missing(fresh, places.tolist(), slots.tolist())
    plan.place_missing(move_in[:len(fresh)], places, slots)
    assert slots.tolist() == expected


@settings(deadline=None)
@given(ENTRIES, HELD, st.integers(-1, 2), st.integers(0, 2))
def test_a_count_only_record_counts_known_keys_and_with_admission_all(truth, batch, threshold, coefficient):
    held, occurrences = int32(h for h, _ in batch), int32(o for _, o in batch)
    slots, homes, scores = (np.zeros(len(batch), np.int32) for _ in range(3))
    counts, rules = np.zeros(len(batch), np.int64), np.array([0, 1, threshold, coefficient, -1], np.int64)
    plan.draft_count_only(held, occurrences, rules, *entry_arrays(truth), slots, homes, counts, scores)
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
    marks, masks_array = np.zeros(SLOTS, np.uint8), masks_of(masks)
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
    seen = View(truth, masks)
    idle = swaps.idle_slots(int32(held), np.uint64(future), seen.masks, seen.view32, slots, scores)
    assert list(zip(slots[:idle].tolist(), scores[:idle].tolist())) == swaps_reference.idle_slots(
        held, future, masks, rows_of(truth))


# ---- truth

@settings(deadline=None)
@given(ENTRIES, HELD, st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, CAPACITY - 1)), max_size=4),
       st.integers(0, 50), st.data())
def test_assigning_a_record_twice_is_assigning_it_once(truth, batch, outs, time, data):
    entries, entries32 = entry_arrays(truth)
    held = [entry for entry, _ in batch]
    slots = data.draw(st.lists(st.integers(-1, SLOTS - 1), min_size=len(batch), max_size=len(batch)))
    homes = data.draw(st.lists(st.integers(-1, 5), min_size=len(batch), max_size=len(batch)))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(batch), max_size=len(batch)))
    move_in = data.draw(st.lists(st.integers(0, len(batch) - 1), unique=True)) if batch else []
    slot_entries, expected_slots = np.full(SLOTS, -1, np.int32), [-1] * SLOTS
    for _ in range(2):
        retire.assign_outs(int32(slot for slot, _ in outs), int32(entry for _, entry in outs), entries32, slot_entries)
        retire.assign_keys(int32(held), int32(slots), int32(homes), np.array(counts, np.int64),
                           int32(range(len(batch))), int32(move_in), 77, time, entries, entries32, slot_entries)
        retire_reference.assign_outs([slot for slot, _ in outs], [entry for _, entry in outs], truth, expected_slots)
        retire_reference.assign_keys(held, slots, homes, counts, range(len(batch)), move_in, 77, time, truth,
                                     expected_slots)
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
    dropped = [retire.evict_entries(n, time, age, masks_of(masks), entries, entries32, slot_entries)
               for n in (min(part, used), used, used)]
    assert sum(dropped) == retire_reference.evict_entries(used, time, age, masks, truth, expected_slots)
    assert dropped[2] == 0
    assert truth_of(entries, entries32) == [entry.values() for entry in truth]
    assert slot_entries.tolist() == expected_slots
    assert before.count(TRAINED) - entries32[:, STATE].tolist().count(TRAINED) == sum(dropped)
