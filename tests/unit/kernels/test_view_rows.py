"""Touched keys get entries, entries of the window get rows, and both are given back."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import touch, view
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import find_keys
from ascpipe.layout.structs import ENTRY
from ascpipe.layout.words import NAMED, TRAINED
from ascpipe.tables.key_index import KeyIndex
from tests.reference import retire as retire_reference
from tests.reference import touch as touch_reference
from tests.reference import view as view_reference
from tests.support.seen_table import CAPACITY, ENTRIES, KEYS, MASKS, SOME, Seen, entry_array, int32, planner, rows_of


@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=7, unique=True), max_size=4), st.lists(st.integers(0, 3), unique=True))
def test_touched_keys_get_the_references_entries(batches, given_back):
    entries = np.full(40 * 6, 3, np.int64).view(ENTRY)
    index, used, keys = {}, 4, KeyIndex(spread_of(1), 40)
    free, own = np.zeros(40, np.int32), planner(free_entries=len(given_back))
    free[:len(given_back)] = given_back
    stack = list(given_back)
    for batch in batches:
        unique, held = np.array(batch, np.int64), np.zeros(len(batch), np.int32)
        expected = touch_reference.name_keys(batch, used, stack, index)
        own["missing"] = find_keys(unique, len(unique), keys.index, held)
        used = touch.name_keys(own, unique, used, keys.index, entries, free, held)
        assert (held.tolist(), used) == expected
        assert free[:own["free_entries"]].tolist() == stack
        assert entries["key"][held].tolist() == batch
        assert entries[held][["state", "slot", "home"]].tolist() == [(NAMED, -1, -1)] * len(held)


@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 7), min_size=CAPACITY, max_size=CAPACITY), SOME, st.integers(0, 2), SOME)
def test_leaving_the_window_frees_names_that_no_frame_holds(truth, masks, held, bit, twice):
    truth = [entry if entry.state == TRAINED else retire_reference.Entry(state=entry.state) for entry in truth]
    masks = view_reference.hold_entries(held, masks, 1 << bit)
    seen, entries = Seen(truth, masks), entry_array(truth)
    entries["key"] = np.arange(CAPACITY) + 100
    free, keys = np.zeros(CAPACITY, np.int32), np.zeros(CAPACITY, np.int64)
    listed = int32(held + [entry for entry in twice if entry in held])
    freed = touch.leave_window(seen.planner, seen.memory, listed, np.uint64(1 << bit), entries, keys, free)
    expected = touch_reference.leave_window(held, masks, 1 << bit, [entry.state for entry in truth])
    assert (seen.rows["mask"].tolist(), entries["state"].tolist(),
            free[:seen.planner["free_entries"]].tolist()) == expected
    assert keys[:freed].tolist() == [entry + 100 for entry in expected[2]]
    assert seen.known() == rows_of(truth)
    assert seen.planner["rows_held"] == np.count_nonzero(expected[0])
    without = set(expected[2])
    assert seen.rows["entry"].tolist() == [-1 if row in without else row for row in range(CAPACITY)]
    assert seen.memory.row_of.tolist() == [0 if row in without else row + 1 for row in range(CAPACITY)]


# ---- rows

@settings(deadline=None)
@given(MASKS, st.integers(0, CAPACITY), st.integers(0, CAPACITY), st.integers(0, 2 * CAPACITY),
       st.integers(0, CAPACITY))
def test_rows_are_made_while_there_may_be_more_and_used_again_afterwards(masks, used, hand, least, n):
    masks = masks[:used] + [0] * (CAPACITY - used)
    seen = Seen([retire_reference.Entry()] * CAPACITY, masks)
    n = min(n, masks.count(0))  # entries in the window are distinct
    seen.planner["rows_used"], seen.planner["row_hand"], seen.planner["least_rows"] = used, hand, least
    seen.rows["entry"][used:], seen.memory.row_of[used:] = -1, 0
    most = min(CAPACITY, max(least, 4 * (CAPACITY - masks.count(0) + n)))
    chosen = np.zeros(n, np.int32)
    view.choose_rows(seen.planner, seen.memory, chosen)
    rows, after = view_reference.choose_rows(n, used, masks, hand, most)
    assert chosen.tolist() == rows
    assert seen.planner["row_hand"] == after
    assert len(set(rows)) == n
    assert seen.planner["rows_used"] == max([used, *(row + 1 for row in rows)])
    assert seen.memory.row_of.tolist() == [entry + 1 if entry < used and entry not in rows else 0
                                           for entry in range(CAPACITY)]


@settings(deadline=None)
@given(ENTRIES, MASKS, st.lists(SOME, max_size=4), st.integers(0, 63))
def test_held_entries_have_rows_that_say_what_the_truth_says(truth, masks, frames, bit):
    seen, entries = Seen(truth), entry_array(truth)
    seen.memory.row_of[:] = 0
    seen.planner["rows_used"] = seen.planner["rows_held"] = 0
    expected, scratch = [0] * CAPACITY, np.zeros(2 * CAPACITY, np.int32)
    for place, held in enumerate(frames):
        listed, bit = np.zeros(len(held), np.int32), (bit + place) % 64
        view.hold_entries(seen.planner, seen.memory, entries, np.uint64(1 << bit), int32(held), listed, scratch)
        expected = view_reference.hold_entries(held, expected, 1 << bit)
        rows = seen.rows[listed]
        assert rows["entry"].tolist() == held
        assert rows["mask"].tolist() == [expected[entry] for entry in held]
        assert rows[["slot", "home", "count", "frequency"]].tolist() == [
            view_reference.copy_values(truth[entry]) for entry in held]
        assert seen.planner["rows_held"] == np.count_nonzero(expected)
        assert [view.is_in_window(entry, seen.memory) for entry in range(CAPACITY)] == [
            view_reference.is_in_window(entry, expected) for entry in range(CAPACITY)]
    seen.planner["touched"] = 5
    view.clear_rows(seen.planner, seen.memory)
    assert not seen.memory.row_of.any()
    assert seen.rows["mask"].tolist() == view_reference.clear_rows(seen.rows["mask"])
    assert [seen.planner[name] for name in ("rows_used", "rows_held", "touched")] == [0, 0, 0]
