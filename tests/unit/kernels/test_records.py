"""touch, view, plan, swaps and retire: the kernels that make and assign records."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import plan, retire, swaps, touch, view
from ascpipe.kernels.hashing import spread_of
from ascpipe.kernels.index import find_keys
from ascpipe.kernels.records import CHANGE, ORDER, PLANNER, ROW, Record, Rules, Victims, View
from ascpipe.kernels.victims import NOT_IN, clear_order, late_room, take_least
from ascpipe.layout.structs import ENTRY
from ascpipe.layout.words import FREE, NAMED, TRAINED
from ascpipe.tables.key_index import KeyIndex
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


FIELDS = ["slot", "home", "count", "frequency", "last", "timestamp", "state"]  # as an Entry has its values


def entry_array(truth):
    """The truth as kernels take it."""
    entries = np.zeros(CAPACITY, ENTRY)
    for number, entry in enumerate(truth):
        for field, value in zip(FIELDS, entry.values()):
            entries[field][number] = value
    return entries


def truth_of(entries):
    return list(zip(*(entries[field].tolist() for field in FIELDS)))


def planner(**fields):
    made = np.zeros(1, PLANNER)[0]
    for name, value in fields.items():
        made[name] = value
    return made


def record_of(held, n=None, **arrays):
    """A record of these entries; arrays that are not given are zeros of n items."""
    n = len(held) if n is None else n
    made = Record(int32(held), *[np.zeros(n, np.int64 if field == "counts" else np.int32)
                                 for field in Record._fields[1:]])
    return made._replace(**{field: np.array(values, getattr(made, field).dtype) for field, values in arrays.items()})


def rows_of(truth):
    return [entry.values()[:4] for entry in truth]


class Seen:
    """A view that says what some truth says, and the planner that it belongs to."""

    def __init__(self, truth, masks=(0,) * CAPACITY, room=4):
        self.memory = View(np.zeros(CAPACITY, ROW), np.zeros(room, CHANGE))
        self.rows["mask"] = masks
        for row, entry in zip(self.rows, truth):
            row["count"], row["slot"], row["home"], row["frequency"] = (
                entry.count, entry.slot, entry.home, entry.frequency)
        self.planner = planner()

    @property
    def rows(self):
        return self.memory.rows

    def both(self):
        return self.planner, self.memory

    def make_room(self, n):
        while self.planner["next_change"] - self.planner["oldest_change"] + n > len(self.memory.changes):
            new = np.zeros(2 * len(self.memory.changes), CHANGE)
            view.move_changes(self.planner, self.memory.changes, new)
            self.memory = self.memory._replace(changes=new)

    def known(self):
        return self.rows[["slot", "home", "count", "frequency"]].tolist()


# ---- touch

@settings(deadline=None)
@given(st.lists(st.lists(KEYS, max_size=7, unique=True), max_size=4), st.lists(st.integers(0, 3), unique=True))
def test_touched_keys_get_the_references_entries(batches, given_back):
    entries, rows = np.full(40 * 6, 3, np.int64).view(ENTRY), np.full(40 * 4, 3, np.int64).view(ROW)
    index, used, keys = {}, 4, KeyIndex(spread_of(1))
    free, own = np.zeros(40, np.int32), planner(free_entries=len(given_back), spread=keys.spread)
    free[:len(given_back)] = given_back
    stack = list(given_back)
    for batch in batches:
        unique, held = np.array(batch, np.int64), np.zeros(len(batch), np.int32)
        expected = touch_reference.name_keys(batch, used, stack, index)
        find_keys(unique, len(unique), keys.lines, keys.spread, held)
        keys.reserve(len(index) + len(batch))
        used = touch.name_keys(own, unique, used, keys.lines, entries, rows, free, held)
        assert (held.tolist(), used) == expected
        assert free[:own["free_entries"]].tolist() == stack
        assert entries["key"][held].tolist() == batch
        assert entries[held][["state", "slot", "home"]].tolist() == [(NAMED, -1, -1)] * len(held)
        assert rows[held][["mask", "count", "slot", "home", "frequency"]].tolist() == [(3, 0, -1, -1, 0)] * len(held)


@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 7), min_size=CAPACITY, max_size=CAPACITY), SOME, st.integers(0, 2))
def test_leaving_the_window_frees_names_that_no_frame_holds(truth, masks, held, bit):
    truth = [entry if entry.state == TRAINED else retire_reference.Entry(state=entry.state) for entry in truth]
    seen, entries = Seen(truth, masks), entry_array(truth)
    entries["key"] = np.arange(CAPACITY) + 100
    free, keys = np.zeros(CAPACITY, np.int32), np.zeros(CAPACITY, np.int64)
    freed = touch.leave_window(seen.planner, int32(held), np.uint64(1 << bit), seen.rows, entries, keys, free)
    expected = touch_reference.leave_window(held, masks, 1 << bit, [entry.state for entry in truth])
    assert (seen.rows["mask"].tolist(), entries["state"].tolist(),
            free[:seen.planner["free_entries"]].tolist()) == expected
    assert keys[:freed].tolist() == [entry + 100 for entry in expected[2]]
    assert seen.known() == rows_of(truth)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), min_size=CAPACITY, max_size=CAPACITY), SOME)
def test_marking_sets_the_bit_of_held_entries_only(masks, held):
    rows = np.zeros(CAPACITY, ROW)
    rows["mask"] = masks
    touch.mark_window(int32(held), rows, np.uint64(2))
    assert rows["mask"].tolist() == touch_reference.mark_window(held, masks, 2)


# ---- view and plan

@settings(deadline=None)
@given(ENTRIES, st.lists(st.integers(0, 2), min_size=CAPACITY, max_size=CAPACITY), st.integers(0, CAPACITY),
       st.booleans())
def test_a_view_is_derived_from_the_truth_and_free_entries_and_forgotten_names_are_collected(
        truth, masks, used, has_homes):
    seen, entries = Seen([retire_reference.Entry(7, 7, 7, 7)] * CAPACITY, masks), entry_array(truth)
    stack = np.zeros(CAPACITY, np.int32)
    free, rows = view.derive_view(used, has_homes, entries, seen.rows, stack)
    states, known, expected_free, expected_rows = view_reference.derive_view(
        used, [entry.home if has_homes else entry.slot for entry in truth], masks, rows_of(truth),
        [entry.state for entry in truth])
    assert (entries["state"].tolist(), stack[:free].tolist(), rows) == (states, expected_free, expected_rows)
    assert seen.known() == [known.get(entry, (7, 7, 7, 7)) for entry in range(CAPACITY)]
    assert seen.rows["mask"].tolist() == masks


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
                view.put_outs(*seen.both(), int32(held), homes)
                assert homes.tolist() == view_reference.put_outs(held, rows, changes)
            else:
                slots, homes, counts, scores = ([data.draw(st.integers(-1, 9)) for _ in held] for _ in range(4))
                view.put_keys(*seen.both(), record_of(held, slots=slots, homes=homes, counts=counts,
                                                      frequencies=scores))
                view_reference.put_keys(held, slots, homes, counts, scores, rows, changes)
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
    tally = plan.draft_record(*seen.both(), rules, occurrences, record)
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
    view.put_moves(record._replace(move_in=moved, slots=given_slots, homes=given_homes), seen.rows)
    view_reference.put_moves(moved.tolist(), held, given_slots.tolist(), given_homes.tolist(), expected_rows)
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
                             ("slot_owners_at", self.owners)):
            self.planner[field] = array.ctypes.data
        for field, value in (("capacity", CAPACITY), ("change_room", len(self.memory.changes)),
                             ("device_rows", SLOTS), ("victims_filled", 1), ("newest", newest),
                             ("first_use", first_use)):
            self.planner[field] = value

    def scores(self):
        return {slot: score for slot, score in enumerate(self.victims.scores[:SLOTS].tolist()) if score != NOT_IN}


@given(FREQUENCIES, st.integers(0, 2**64 - 1) | FUTURE, NEWEST, st.integers(63, 1000) | st.just(swaps.MOST_USES))
def test_idle_slots_come_first_then_those_whose_next_use_is_farthest(frequency, uses, newest, since):
    score = swaps.score_of(np.int32(frequency), np.uint64(uses), newest, newest - since)
    assert score == swaps_reference.score_of(frequency, uses, newest, newest - since)
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
    kept, scores = swaps_reference.keep_least(pairs, right, seen.scores())
    found = swaps.keep_least(seen.planner, np.uint64(future), numbers[:taken])
    assert [(number >> 32, number & 0xFFFFFFFF) for number in numbers[:found].tolist()] == kept
    assert seen.scores() == scores
    numbers = np.zeros(SLOTS, np.int64)
    assert numbers[:take_least(numbers, seen.victims)].tolist() == sorted(
        score << 32 | slot for slot, score in scores.items())


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
    out = np.zeros(len(found), np.int32)
    retire.resolve_entries(int32(found), threshold, entry_array(truth), out)
    assert out.tolist() == retire_reference.resolve_entries(found, threshold, truth)


@settings(deadline=None)
@given(ENTRIES, MASKS, st.integers(0, CAPACITY), st.integers(0, 12), st.integers(-1, 12), st.integers(0, CAPACITY))
def test_evicting_again_after_a_part_of_it_evicts_the_rest(truth, masks, used, time, age, part):
    entries, rows = entry_array(truth), Seen(truth, masks).rows
    slot_entries, expected_slots = int32(range(SLOTS)), list(range(SLOTS))
    before = [entry.state for entry in truth]
    dropped = [retire.evict_entries(n, time, age, rows, entries, slot_entries)
               for n in (min(part, used), used, used)]
    assert sum(dropped) == retire_reference.evict_entries(used, time, age, masks, truth, expected_slots)
    assert dropped[2] == 0
    assert truth_of(entries) == [entry.values() for entry in truth]
    assert slot_entries.tolist() == expected_slots
    assert before.count(TRAINED) - entries["state"].tolist().count(TRAINED) == sum(dropped)
