"""touch, plan and retire: the kernels that make and assign records."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import plan, retire, touch
from ascpipe.kernels.entry import COUNT, FREQUENCY, INT32_COLUMNS, INT64_COLUMNS, KEY, LAST, SLOT, STATE
from ascpipe.kernels.index import find_keys, index_cells, insert_key
from ascpipe.words import FREE, NAMED, TRAINED
from tests.reference import plan as plan_reference
from tests.reference import retire as retire_reference
from tests.reference import touch as touch_reference

CAPACITY = 12
KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 9)
TRUTH = st.tuples(st.integers(-1, 7), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9),
                  st.sampled_from([FREE, NAMED, TRAINED]))
HELD = st.lists(st.tuples(st.integers(0, CAPACITY - 1), st.integers(1, 5)), max_size=CAPACITY, unique_by=lambda h: h[0])


def entry_arrays(truth):
    """The truth as the two views of one memory."""
    entries = np.zeros((CAPACITY, INT64_COLUMNS), np.int64)
    entries32 = entries.view(np.int32).reshape(CAPACITY, INT32_COLUMNS)
    for entry, (slot, count, frequency, last, state) in enumerate(truth):
        entries[entry, COUNT], entries[entry, LAST] = count, last
        entries32[entry, SLOT], entries32[entry, FREQUENCY], entries32[entry, STATE] = slot, frequency, state
    return entries, entries32


def truth_of(entries, entries32):
    return [(int(row32[SLOT]), int(row[COUNT]), int(row32[FREQUENCY]), int(row[LAST]), int(row32[STATE]))
            for row, row32 in zip(entries, entries32)]


def int32(values):
    return np.array(list(values), np.int32)


@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=7, unique=True), max_size=4))
def test_touched_keys_get_the_references_entries(batches):
    entries, entries32 = entry_arrays([(0, 3, 3, 3, FREE)] * CAPACITY)
    cells = index_cells(CAPACITY)
    index_keys, index_entries = np.zeros(cells, np.int64), np.full(cells, -1, np.int32)
    free, count = int32(range(CAPACITY)), np.array([CAPACITY], np.int64)
    index, stack = {}, list(range(CAPACITY))
    for batch in batches:
        unique, held = np.array(batch, np.int64), np.zeros(len(batch), np.int32)
        expected = touch_reference.touch_keys(batch, index, stack)
        found = touch.touch_keys(unique, held, index_keys, index_entries, free, count, entries, entries32)
        if expected is None:
            assert found < 0
            assert count[0] == len(stack)
            continue
        assert (held.tolist(), found) == expected
        assert free[:count[0]].tolist() == stack
        assert [int(entries[entry, KEY]) for entry in held] == batch
        assert all(entries32[entry, STATE] == NAMED and entries32[entry, SLOT] == -1 for entry in held)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([FREE, NAMED, TRAINED])), min_size=CAPACITY,
                max_size=CAPACITY), st.lists(st.integers(0, CAPACITY - 1), unique=True), st.integers(0, 2))
def test_leaving_the_window_frees_names_that_no_frame_holds(rows, held, place):
    masks = np.array([mask for mask, _ in rows], np.uint64)
    entries, entries32 = entry_arrays([(-1, 0, 0, 0, state) for _, state in rows])
    entries[:, KEY] = np.arange(CAPACITY) + 100
    free, count, keys = np.zeros(CAPACITY, np.int32), np.zeros(1, np.int64), np.zeros(CAPACITY, np.int64)
    freed = touch.leave_window(int32(held), masks, np.uint64(1 << place), entries, entries32, keys, free, count)
    expected = touch_reference.leave_window(held, [mask for mask, _ in rows], 1 << place, [state for _, state in rows])
    assert (masks.tolist(), entries32[:, STATE].tolist(), free[:count[0]].tolist()) == expected
    assert keys[:freed].tolist() == [entry + 100 for entry in expected[2]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([FREE, NAMED, TRAINED])), min_size=CAPACITY,
                max_size=CAPACITY))
def test_a_restart_collects_free_entries_and_forgotten_names(rows):
    masks = np.array([mask for mask, _ in rows], np.uint64)
    _, entries32 = entry_arrays([(-1, 0, 0, 0, state) for _, state in rows])
    stack = np.zeros(CAPACITY, np.int32)
    count = touch.collect_free(masks, entries32, stack)
    assert (entries32[:, STATE].tolist(), stack[:count].tolist()) == touch_reference.collect_free(
        masks.tolist(), [state for _, state in rows])


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=CAPACITY, max_size=CAPACITY), HELD)
def test_marking_sets_the_bit_of_held_entries_only(masks, held):
    array = np.array(masks, np.uint64)
    touch.mark_window(int32(entry for entry, _ in held), array, np.uint64(2))
    assert array.tolist() == touch_reference.mark_window([entry for entry, _ in held], masks, 2)


@settings(deadline=None)
@given(st.lists(TRUTH, min_size=CAPACITY, max_size=CAPACITY), HELD)
def test_a_drafted_record_is_the_references(view, batch):
    held, occurrences = int32(h for h, _ in batch), int32(o for _, o in batch)
    slots, counts, frequencies = int32(v[0] for v in view), np.array([v[1] for v in view]), int32(v[2] for v in view)
    out = np.zeros(len(batch), np.int32), np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int32)
    missing = np.zeros(len(batch), np.int32)
    count = plan.draft_record(held, occurrences, slots, counts, frequencies, *out, missing)
    expected = plan_reference.draft_record(held.tolist(), occurrences.tolist(), slots.tolist(), counts.tolist(),
                                           frequencies.tolist())
    assert (*[column.tolist() for column in out], missing[:count].tolist()) == expected
    given_slots = int32(range(100, 100 + count))
    placed = plan_reference.place_missing(missing[:count].tolist(), given_slots.tolist(), out[0].tolist())
    plan.place_missing(missing[:count], given_slots, out[0])
    assert out[0].tolist() == placed
    after = plan_reference.assign_to_view(held, *[column.tolist() for column in out], slots, counts, frequencies)
    plan.assign_to_view(held, *out, slots, counts, frequencies)
    assert [column.tolist() for column in (slots, counts, frequencies)] == [list(map(int, c)) for c in after]


@settings(deadline=None)
@given(st.lists(TRUTH, min_size=CAPACITY, max_size=CAPACITY), HELD)
def test_a_taken_back_view_is_the_truth_again(rows, batch):
    entries, entries32 = entry_arrays(rows)
    held = int32(h for h, _ in batch)
    view = np.full(CAPACITY, 50, np.int32), np.full(CAPACITY, 51, np.int64), np.full(CAPACITY, 52, np.int32)
    expected = plan_reference.reset_view(held.tolist(), rows, *[column.tolist() for column in view])
    plan.reset_view(held, entries32, entries, *view)
    assert tuple(column.tolist() for column in view) == expected


@settings(deadline=None)
@given(st.lists(TRUTH, min_size=CAPACITY, max_size=CAPACITY), HELD)
def test_a_count_only_record_counts_known_keys(rows, batch):
    entries, entries32 = entry_arrays(rows)
    held, occurrences = int32(h for h, _ in batch), int32(o for _, o in batch)
    out = np.zeros(len(batch), np.int32), np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int32)
    plan.draft_count_only(held, occurrences, entries32, entries, *out)
    truth = [(slot, count, frequency, state) for slot, count, frequency, _, state in rows]
    expected = plan_reference.draft_count_only(held.tolist(), occurrences.tolist(), truth)
    assert tuple(column.tolist() for column in out) == expected


@settings(deadline=None)
@given(st.lists(TRUTH, min_size=CAPACITY, max_size=CAPACITY), HELD, st.data())
def test_retiring_a_record_twice_is_retiring_it_once(rows, batch, data):
    entries, entries32 = entry_arrays(rows)
    held = int32(h for h, _ in batch)
    slots = int32(data.draw(st.lists(st.integers(-1, 7), min_size=len(batch), max_size=len(batch))))
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(batch), max_size=len(batch))), np.int64)
    frequencies = int32(range(len(batch)))
    slot_entries = np.full(8, -1, np.int32)
    expected = retire_reference.assign_to_truth(held.tolist(), slots.tolist(), counts.tolist(), frequencies.tolist(),
                                                77, rows, [-1] * 8)
    for _ in range(2):
        retire.assign_to_truth(held, slots, counts, frequencies, 77, entries, entries32, slot_entries)
        assert (truth_of(entries, entries32), slot_entries.tolist()) == expected


@settings(deadline=None)
@given(st.lists(TRUTH, min_size=CAPACITY, max_size=CAPACITY), st.lists(KEYS, max_size=CAPACITY, unique=True),
       st.lists(KEYS, max_size=9, unique=True))
def test_an_evaluation_sees_the_slots_of_trained_keys_only(rows, known, asked):
    _, entries32 = entry_arrays(rows)
    cells = index_cells(CAPACITY)
    index_keys, index_entries = np.zeros(cells, np.int64), np.full(cells, -1, np.int32)
    for entry, key in enumerate(known):
        insert_key(key, entry, index_keys, index_entries)
    unique, out, scratch = np.array(asked, np.int64), np.zeros(len(asked), np.int32), np.zeros(len(asked), np.int32)
    found = retire.resolve_keys(unique, out, index_keys, index_entries, entries32, scratch)
    expected = retire_reference.resolve_keys(asked, {key: entry for entry, key in enumerate(known)}, rows)
    assert out.tolist() == expected
    assert found == sum(slot >= 0 for slot in expected)
    find_keys(unique, len(asked), index_keys, index_entries, scratch)
    assert [entry >= 0 for entry in scratch] == [key in known for key in asked]
