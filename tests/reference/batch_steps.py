"""Plain-Python twins of ``ascpipe/kernels/batch_steps.py``.

They change a ``Table`` of lists and dictionaries in place.
"""
from ascpipe.kernels.asks import LACKS_ENTRIES, LACKS_HOMES, LACKS_NOTHING, LACKS_ROWS, LACKS_SCRATCH, LACKS_VICTIMS
from ascpipe.layout.words import NAMED, PLAN_DEVICE_SMALL, PLAN_HOST_FULL, PLAN_NO_MEMORY, PLAN_OK, PLAN_TABLE_FULL
from tests.reference import retire, view
from tests.reference.assign_homes import assign_homes
from tests.reference.bits import frame_bit
from tests.reference.free_homes import give_back_homes, home_reach, take_homes
from tests.reference.free_slots import release_slots, take_lowest_slots
from tests.reference.pinning import forget_new_keys, free_home_rows
from tests.reference.plan import place_missing
from tests.reference.quarantine import may_take_free
from tests.reference.swaps import choose_victims
from tests.reference.touch import name_keys
from tests.reference.window import drop_extra_entries, hold_extra_entries, take_into_window

NO_ROW = (-1, -1, 0, 0)


class Record:
    """Result of a plan; see ``ascpipe.kernels.records.Record``."""

    def __init__(self, held):
        self.held, self.move_in, self.out_slots, self.out_entries, self.out_homes = list(held), [], [], [], []
        self.slots, self.homes, self.counts, self.frequencies = ([-1] * len(held) for _ in range(4))

    def keys(self):
        """Return the columns with the new rows of the keys."""
        return self.held, self.slots, self.homes, self.counts, self.frequencies


class Table:
    """One table: its truth, and the derived state of its worker.  A row of the view is (slot, home, count, frequency).

    If ``tier`` is a ``tier_memory.Tier``, it has the free home rows, and ``homes`` is not used.
    """

    def __init__(self, device_rows, home_rows, capacity, threshold, coefficient, tier=None):
        self.device_rows, self.home_rows, self.capacity = device_rows, home_rows, capacity
        self.threshold, self.coefficient, self.counting, self.tier = threshold, coefficient, True, tier
        # truth
        self.entries = [retire.Entry() for _ in range(capacity)]
        self.slot_entries = [-1] * device_rows
        self.used = 0
        # derived
        self.index, self.view, self.changes = {}, {}, []  # key -> entry, entry -> row, rows before
        self.window, self.unplanned = {}, set()  # number -> entries held, numbers
        self.others = {}  # number -> other entries that the frame's record changes
        self.pending = []  # (number, time before) of each record, oldest first
        self.free_entries, self.free_slots, self.homes = [], set(range(device_rows)), set()
        self.victims_filled = False  # victims were chosen before
        self.rows = self.time = self.newest = 0
        # sizes of allocated memory
        self.scratch_room = self.entries_ready = self.homes_ready = 0
        self.change_room = 0
        self.has_order = self.home_memory_exhausted = False
        # state and counters of the steps of a ring
        self.cut_asked = self.touch_blocked = self.is_loading = self.has_images = False
        self.images_saved_for = -1
        self.header = dict.fromkeys(("rows", "time", "retired", "batches", "ids", "hits", "misses", "loads"), 0)

    def key_of(self, entry):
        """Return the key of an entry."""
        return next(key for key, number in self.index.items() if number == entry)

    def masks(self):
        """Return the window mask of each entry."""
        return [sum(frame_bit(number) for number, held in self.window.items()
                    if entry in held or entry in self.others[number]) for entry in range(self.capacity)]


def touch(table, number, unique):
    """Return (lacks, entries)."""
    if len(unique) > table.scratch_room:
        return LACKS_SCRATCH, None
    new = [key for key in unique if key not in table.index]
    reach = max(table.used, table.used + len(new) - len(table.free_entries))
    if new and reach > table.entries_ready:
        return LACKS_ENTRIES, None
    held, table.used = name_keys(unique, table.used, table.free_entries, table.index)
    for key in new:
        generation = table.entries[table.index[key]].generation
        table.entries[table.index[key]] = retire.Entry(state=NAMED, generation=generation)
        table.view[table.index[key]] = NO_ROW
    take_into_window(table, number, held)
    return LACKS_NOTHING, held


def rules_of(table, sequence):
    has_homes, has_slots = table.home_rows > 0, table.device_rows > 0
    return (has_homes, has_slots, table.threshold,
            table.coefficient if table.threshold < 0 or table.counting else 0,
            sequence if has_homes and has_slots else -1)


def missing_entries(table, unique):
    """Return (status, need)."""
    unknown = sum(key not in table.index for key in unique)
    if len(table.index) + unknown <= table.capacity:
        return PLAN_NO_MEMORY, len(table.index) + unknown
    return (PLAN_HOST_FULL if table.home_rows else PLAN_TABLE_FULL), table.rows + unknown


def reach_of(table, fresh):
    """Return the number of home rows that need memory if ``fresh`` more are taken."""
    if table.tier:
        return table.tier.high + max(0, fresh - len(table.tier.free))
    return home_reach(table.homes | set(take_homes(table.homes, fresh)), 0)


def fit(table, admitted, fresh):
    """Return (status, need)."""
    rows = table.rows + fresh
    if not table.home_rows:
        return (PLAN_OK if fresh <= len(table.free_slots) else PLAN_TABLE_FULL), rows
    if table.device_rows and admitted > table.device_rows:
        return PLAN_DEVICE_SMALL, admitted
    if rows > (table.tier.disk_slots if table.tier else table.home_rows):
        return PLAN_HOST_FULL, rows
    if table.home_memory_exhausted and reach_of(table, fresh) > table.homes_ready:
        return PLAN_NO_MEMORY, rows
    return PLAN_OK, rows


def lacks_of(table, fresh, loads):
    if not table.home_rows:
        return LACKS_NOTHING
    if table.tier and fresh and (fresh > free_home_rows(table) or not may_take_free(table.tier)):
        return LACKS_ROWS
    if reach_of(table, fresh) > table.homes_ready:
        return LACKS_HOMES
    needs_victims = table.device_rows and fresh + loads > len(table.free_slots)
    return LACKS_VICTIMS if needs_victims and not table.has_order else LACKS_NOTHING


def take_rows(table, n):
    """Take n free home rows that have memory."""
    if table.tier:
        made = range(table.tier.high, table.tier.high + max(0, n - len(table.tier.free)))
        homes = [table.tier.free.pop() for _ in range(n - len(made))] + list(made)
        table.tier.high += len(made)
    else:
        homes = take_homes(table.homes, n)
        table.homes.update(homes)
    return homes


def give_back_rows(table, homes):
    """Free home rows in reverse order, as if they had never been taken."""
    if table.tier:
        for home in reversed(homes):
            if home == table.tier.high - 1:
                table.tier.high -= 1
            else:
                table.tier.free.append(home)
    else:
        give_back_homes(table.homes, homes)


def complete(table, number, fresh, record):
    """Complete a record and return the number of victims."""
    if table.device_rows:
        outs = max(0, len(record.move_in) - len(table.free_slots))
        record.out_slots = choose_victims(table, number, record, outs)
        owners = {row[0]: entry for entry, row in table.view.items()}
        record.out_entries = [owners[slot] for slot in record.out_slots]
        hold_extra_entries(table, number, record.out_entries)
        free = take_lowest_slots(table.free_slots, len(record.move_in) - outs)
        record.slots = place_missing(record.move_in, free + record.out_slots, record.slots)
    if table.home_rows:
        record.homes = place_missing(record.move_in[:fresh], take_rows(table, fresh), record.homes)
    if table.tier:
        forget_new_keys(table.tier, number)
    return len(record.out_slots)


def add_record(table, number, record, rows, time):
    table.pending.append((number, table.time))
    table.rows, table.time = rows, time


def put_on(table, number, record, rows, time):
    if len(table.window[number]) != len(record.held):
        hold_extra_entries(table, number, record.held)
    hold_extra_entries(table, number, record.out_entries)
    record.out_homes = view.apply_outs(record.out_entries, table.view, table.changes)
    view.apply_keys(*record.keys(), table.view, table.changes)
    add_record(table, number, record, rows, time)


def take_back(table, number, record, fresh):
    view.undo_changes(len(record.held) + len(record.out_slots), table.view, table.changes)
    table.rows -= fresh
    _, table.time = table.pending.pop()
    table.unplanned.add(number)
    if table.device_rows:
        taken = record.move_in[:len(record.move_in) - len(record.out_slots)]
        assert release_slots([record.slots[i] for i in taken], table.free_slots, table.device_rows) == len(taken)
    give_back_rows(table, [record.homes[i] for i in record.move_in[:fresh]])
    if table.tier:
        table.tier.new_keys[number] = fresh
    drop_extra_entries(table, number)


def assign(table, record, ticket, time):
    retire.assign_outs(record.out_slots, record.out_entries, table.entries, table.slot_entries)
    if table.tier:
        assign_homes(table, record)
    retire.assign_keys(*record.keys(), record.move_in, ticket, time, table.entries, table.slot_entries)


def forget(table, n):
    del table.changes[:n]
    del table.pending[0]
