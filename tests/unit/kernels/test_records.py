"""view, plan, swaps and retire: the kernels that make and assign records."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import plan, rescoring, retire, swaps, view
from ascpipe.kernels.records import ORDER, Rules, Victims, late_room
from ascpipe.kernels.victims import NOT_IN, clear_order, take_least
from ascpipe.layout.words import TRAINED
from tests.reference import plan as plan_reference
from tests.reference import rescoring as rescoring_reference
from tests.reference import retire as retire_reference
from tests.reference import swaps as swaps_reference
from tests.reference import view as view_reference
from tests.support.seen_table import (
    CAPACITY,
    ENTRIES,
    HELD,
    MASKS,
    SLOTS,
    SOME,
    Seen,
    entry_array,
    int32,
    record_of,
    rows_of,
    truth_of,
)

# ---- view and plan

@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 2), min_size=CAPACITY, max_size=CAPACITY), st.integers(0, CAPACITY),
       st.booleans())
def test_a_view_is_derived_from_the_truth_and_free_entries_and_forgotten_names_are_collected(
        truth, masks, used, has_homes):
    seen, entries = Seen([retire_reference.Entry(7, 7, 7, 7)] * CAPACITY, masks), entry_array(truth)
    stack = np.zeros(CAPACITY, np.int32)
    seen.planner["home_rows"] = has_homes
    free, rows = view.derive_view(seen.planner, seen.memory, used, entries, stack)
    states, known, expected_free, expected_rows = view_reference.derive_view(
        used, [entry.home if has_homes else entry.slot for entry in truth], masks, rows_of(truth),
        [entry.state for entry in truth])
    assert (entries["state"].tolist(), stack[:free].tolist(), rows) == (states, expected_free, expected_rows)
    held = [entry for entry in range(CAPACITY) if masks[entry]]
    assert [row for row, mask in zip(seen.known(), masks) if mask] == [rows_of(truth)[entry] for entry in held]
    assert all(known[entry] == rows_of(truth)[entry] for entry in held if entry < used)
    assert seen.rows["mask"].tolist() == masks
    assert seen.memory.row_of.tolist() == [entry + 1 if entry in held else 0 for entry in range(CAPACITY)]


@settings(deadline=None)
@given(ENTRIES, MASKS, st.data())
def test_the_view_is_the_references_whatever_is_put_on_taken_off_or_forgotten(truth, masks, data):
    seen, rows, records, changes = Seen(truth, masks), rows_of(truth), [], []
    for _ in range(data.draw(st.integers(0, 8))):
        action = data.draw(st.sampled_from(["keys", "keys", "outs", "undo", "forget"]))
        if action in ("keys", "outs"):
            held = data.draw(SOME)
            seen.make_room(len(held))
            if action == "outs":
                homes = np.zeros(len(held), np.int32)
                view.apply_outs(*seen.both(), int32(held), homes)
                assert homes.tolist() == view_reference.apply_outs(held, rows, changes)
            else:
                slots, homes, counts, scores = ([data.draw(st.integers(-1, 9)) for _ in held] for _ in range(4))
                view.apply_keys(*seen.both(), int32(held), record_of(
                    held, slots=slots, homes=homes, counts=counts, frequencies=scores))
                view_reference.apply_keys(held, slots, homes, counts, scores, rows, changes)
            records.append(len(held))
        elif records and action == "undo":
            n = records.pop()
            view.undo_changes(*seen.both(), n)
            view_reference.undo_changes(n, rows, changes)
        elif records:
            n = records.pop(0)
            seen.planner["oldest_change"] += n
            del changes[:n]
        assert seen.known() == rows
        assert seen.rows["mask"].tolist() == masks


@settings(deadline=None)
@given(ENTRIES, HELD, st.booleans(), st.booleans(), st.integers(-1, 12), st.integers(0, 2), st.integers(-1, 99))
def test_a_drafted_record_is_the_references(truth, batch, has_homes, has_slots, threshold, coefficient, now):
    held, occurrences = [h for h, _ in batch], int32(o for _, o in batch)
    n, record = len(batch), record_of(held)
    rules = Rules(int(has_homes), int(has_slots), threshold, coefficient, now)
    seen, rows = Seen(truth, room=16), rows_of(truth)
    tally = plan.draft_record(*seen.both(), rules, int32(held), occurrences, record)
    drafted, fresh, loads, admitted = plan_reference.draft_record(
        [rows[entry] for entry in held], occurrences.tolist(), has_homes, has_slots, threshold, coefficient, now)
    assert list(zip(record.slots.tolist(), record.homes.tolist(), record.counts.tolist(),
                    record.frequencies.tolist())) == drafted
    assert tally == (admitted, len(fresh), len(loads))
    moved = record.move_in[:len(fresh) + len(loads)]
    assert moved.tolist() == fresh + loads
    expected_rows = list(rows)
    for entry, (_, _, count, score) in zip(held, drafted):
        expected_rows[entry] = (*rows[entry][:2], count, score)
    assert seen.known() == expected_rows
    given_slots, given_homes = record.slots + np.int32(50), record.homes + np.int32(60)
    view.apply_moves(record._replace(move_in=moved, slots=given_slots, homes=given_homes), int32(held), seen.rows)
    view_reference.apply_moves(moved.tolist(), held, given_slots.tolist(), given_homes.tolist(), expected_rows)
    assert seen.known() == expected_rows
    view.undo_changes(*seen.both(), n)
    assert seen.known() == rows
    places = int32(range(100, 100 + len(fresh)))
    expected = plan_reference.place_missing(fresh, places.tolist(), record.slots.tolist())
    plan.place_missing(record.move_in[:len(fresh)], places, record.slots)
    assert record.slots.tolist() == expected


@settings(deadline=None)
@given(ENTRIES, HELD, st.integers(-1, 2), st.integers(0, 2))
def test_a_count_only_record_counts_known_keys_and_with_admission_all(truth, batch, threshold, coefficient):
    record, occurrences = record_of([h for h, _ in batch]), int32(o for _, o in batch)
    plan.draft_count_only(Rules(0, 1, threshold, coefficient, -1), occurrences, entry_array(truth), record)
    assert list(zip(record.slots.tolist(), record.homes.tolist(), record.counts.tolist(),
                    record.frequencies.tolist())) == (
        plan_reference.draft_count_only([rows_of(truth)[entry] for entry, _ in batch],
                                        [truth[entry].state for entry, _ in batch], occurrences.tolist(), threshold,
                                        coefficient))


# ---- swaps

NEWEST = st.sampled_from([62, 63, 64, 500, 2**40])
FUTURE = st.sampled_from([0, 1, 3, 7, 1 << 63 | 5, 1 << 62 | 1])
FREQUENCIES = st.integers(0, 2**31 - 1) | st.sampled_from([0, 2**31 - 1])


class Ranked(Seen):
    """A table with a victim order."""

    def __init__(self, truth, masks, newest, first_use):
        super().__init__(truth, masks)
        self.entries = entry_array(truth)
        self.order, rows = np.zeros(1, ORDER), np.full(SLOTS + 1, 3, np.int32)
        self.victims = Victims(self.order, rows, np.zeros(2 * SLOTS, np.int64),
                               np.zeros(2 * late_room(SLOTS), np.int64))
        clear_order(self.victims)
        self.owners = np.full(SLOTS, -1, np.int32)
        for number, entry in enumerate(truth):
            if entry.slot >= 0:
                self.owners[entry.slot] = number
        for field, array in (("view_at", self.rows), ("changes_at", self.memory.changes), ("order_at", self.order),
                             ("scores_at", rows), ("numbers_at", self.victims.numbers), ("late_at", self.victims.late),
                             ("slot_owners_at", self.owners), ("row_of_at", self.memory.row_of),
                             ("entries_at", self.entries)):
            self.planner[field] = array.ctypes.data
        for field, value in (("capacity", CAPACITY), ("change_room", len(self.memory.changes)),
                             ("device_rows", SLOTS), ("victims_filled", 1), ("newest", newest),
                             ("first_use", first_use)):
            self.planner[field] = value

    def scores(self):
        return {slot: score for slot, score in enumerate(self.victims.scores[:SLOTS].tolist()) if score != NOT_IN}


@given(FREQUENCIES, st.integers(0, 2**64 - 1) | FUTURE, NEWEST, st.integers(63, 1000) | st.just(rescoring.MOST_USES))
def test_idle_slots_come_first_then_those_whose_next_use_is_farthest(frequency, uses, newest, since):
    score = rescoring.score_of(np.int32(frequency), np.uint64(uses), newest, newest - since)
    assert score == rescoring_reference.score_of(frequency, uses, newest, newest - since)
    assert NOT_IN < score < 2**31
    assert (score <= 0) == (uses == 0)


@settings(deadline=None)
@given(ENTRIES, MASKS, SOME, FUTURE, NEWEST, st.booleans())
def test_slots_are_ranked_once_there_is_a_victim_order(truth, masks, held, future, newest, there_is_one):
    seen = Ranked(truth, masks, newest, newest - 70)
    seen.planner["victims_filled"] = there_is_one
    swaps.rank_slots(seen.planner, int32(held), np.uint64(future))
    expected = swaps_reference.rank_slots(held, future, masks, rows_of(truth), newest, newest - 70, {})
    assert seen.scores() == (expected if there_is_one else {})
    swaps.drop_slots(seen.planner, int32([3, -1, 0]))
    assert seen.scores() == (swaps_reference.drop_slots([3, 0], expected) if there_is_one else {})


@settings(deadline=None)
@given(ENTRIES, MASKS, MASKS, FUTURE, NEWEST, st.integers(1, SLOTS))
def test_of_the_slots_that_are_taken_those_are_kept_that_come_before_all_others(truth, before, added, future, newest,
                                                                                n):
    """Rows are needed by more frames than when their slots were ranked."""
    seen = Ranked(truth, before, newest, newest - 70)
    owned = seen.owners[seen.owners >= 0]
    swaps.rank_slots(seen.planner, owned, np.uint64(future))
    now = [mask | more for mask, more in zip(before, added)]
    seen.rows["mask"] = now
    right = swaps_reference.rank_slots(owned.tolist(), future, now, rows_of(truth), newest, newest - 70, {})
    numbers = np.zeros(n, np.int64)
    taken = take_least(numbers, seen.victims)
    pairs = [(number >> 32, number & 0xFFFFFFFF) for number in numbers[:taken].tolist()]
    kept, scores = rescoring_reference.keep_least(pairs, right, seen.scores())
    found = rescoring.keep_least(
        seen.planner, seen.owners, np.uint64(future), newest - 70, seen.victims, numbers[:taken])
    assert [(number >> 32, number & 0xFFFFFFFF) for number in numbers[:found].tolist()] == kept
    assert seen.scores() == scores
    numbers = np.zeros(SLOTS, np.int64)
    assert numbers[:take_least(numbers, seen.victims)].tolist() == sorted(
        score << 32 | slot for slot, score in scores.items())


@settings(deadline=None)
@given(ENTRIES, MASKS, SOME, FUTURE, NEWEST)
def test_the_victim_order_begins_with_all_slots_in_use_whether_their_entries_have_rows(truth, masks, without, future,
                                                                                      newest):
    seen = Ranked(truth, masks, newest, 3)
    for entry in without:  # of such the truth is the view; what an unused row says does not matter
        if not masks[entry]:
            seen.memory.row_of[entry] = 0
    owners = {int(entry): slot for slot, entry in enumerate(seen.owners.tolist()) if entry >= 0}
    for entry in range(CAPACITY):  # one entry a slot, as in a table
        if entry not in owners:
            seen.rows["slot"][entry] = -1
    seen.planner["unplanned"], seen.planner["victims_filled"] = future, 0
    swaps.rank_all(seen.planner)
    right = swaps_reference.rank_slots(list(owners), future, masks, rows_of(truth), newest, newest - 63, {})
    assert seen.scores() == right
    assert (seen.planner["victims_filled"], seen.planner["first_use"]) == (1, newest - 63)
    assert {slot: rescoring.true_score(seen.planner, seen.memory, entry, np.uint64(future), newest - 63)
            for entry, slot in owners.items()} == right


# ---- truth

@settings(deadline=None)
@given(ENTRIES, HELD, st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, CAPACITY - 1)), max_size=4),
       st.integers(0, 50), st.data())
def test_assigning_a_record_twice_is_assigning_it_once(truth, batch, outs, time, data):
    entries = entry_array(truth)
    held = [entry for entry, _ in batch]
    slots = data.draw(st.lists(st.integers(-1, SLOTS - 1), min_size=len(batch), max_size=len(batch)))
    homes = data.draw(st.lists(st.integers(-1, 5), min_size=len(batch), max_size=len(batch)))
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(batch), max_size=len(batch)))
    move_in = data.draw(st.lists(st.integers(0, len(batch) - 1), unique=True)) if batch else []
    record = record_of(held, slots=slots, homes=homes, counts=counts, frequencies=list(range(len(batch))),
                       move_in=move_in)
    slot_entries, expected_slots = np.full(SLOTS, -1, np.int32), [-1] * SLOTS
    for _ in range(2):
        retire.assign_outs(int32(slot for slot, _ in outs), int32(entry for _, entry in outs), entries, slot_entries)
        retire.assign_keys(record, 77, time, entries, slot_entries)
        retire_reference.assign_outs([slot for slot, _ in outs], [entry for _, entry in outs], truth, expected_slots)
        retire_reference.assign_keys(held, slots, homes, counts, range(len(batch)), move_in, 77, time, truth,
                                     expected_slots)
        assert truth_of(entries) == [entry.values() for entry in truth]
        assert slot_entries.tolist() == expected_slots


@settings(deadline=None)
@given(ENTRIES, st.integers(0, CAPACITY))
def test_slots_are_those_of_the_entries_that_say_so(truth, used):
    slot_entries = int32(range(SLOTS))
    retire.occupy_slots(used, entry_array(truth), slot_entries)
    assert slot_entries.tolist() == retire_reference.occupy_slots(truth[:used], SLOTS)


@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(-1, CAPACITY - 1)), st.integers(-1, 5))
def test_an_evaluation_sees_the_places_of_rows_of_admitted_keys_only(truth, found, threshold):
    slots, disk_slots, generations = np.full((3, len(found)), -9, np.int32)
    retire.resolve_entries(int32(found), threshold, entry_array(truth), slots, disk_slots, generations)
    expected = retire_reference.resolve_entries(found, threshold, truth)
    assert slots.tolist() == [slot for slot, _, _ in expected]
    for array, place in ((disk_slots, 1), (generations, 2)):
        assert array.tolist() == [-9 if one[place] is None else one[place] for one in expected]


@settings(deadline=None)
@given(ENTRIES, MASKS, st.integers(0, CAPACITY), st.integers(0, 12), st.integers(-1, 12), st.integers(0, CAPACITY))
def test_evicting_again_after_a_part_of_it_evicts_the_rest(truth, masks, used, time, age, part):
    entries, seen = entry_array(truth), Seen(truth, masks).memory
    slot_entries, expected_slots = int32(range(SLOTS)), list(range(SLOTS))
    before = [entry.state for entry in truth]
    dropped = [retire.evict_entries(n, time, age, seen, entries, slot_entries)
               for n in (min(part, used), used, used)]
    assert sum(dropped) == retire_reference.evict_entries(used, time, age, masks, truth, expected_slots)
    assert dropped[2] == 0
    assert truth_of(entries) == [entry.values() for entry in truth]
    assert slot_entries.tolist() == expected_slots
    assert before.count(TRAINED) - entries["state"].tolist().count(TRAINED) == sum(dropped)
