"""A view of a small table, entry by entry, for tests of single kernels."""
import numpy as np
from hypothesis import strategies as st

from ascpipe.kernels import view
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.kernels.records import CHANGE, ROW, Record, View
from ascpipe.layout.structs import ENTRY
from ascpipe.layout.words import FREE, NAMED, TRAINED
from tests.reference import retire as retire_reference

CAPACITY = 12
SLOTS = 8
KEYS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 9)
STATES = st.sampled_from([FREE, NAMED, TRAINED])
ENTRIES = st.lists(
    st.builds(retire_reference.Entry, st.integers(-1, SLOTS - 1), st.integers(-4, 5), st.integers(0, 9),
              st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), STATES, st.sampled_from([0, 1, 2**16 - 1])),
    min_size=CAPACITY, max_size=CAPACITY)
MASKS = st.lists(st.integers(0, 7) | st.sampled_from([1 << 63, 1 << 62, 1 << 63 | 1]), min_size=CAPACITY,
                 max_size=CAPACITY)
HELD = st.lists(st.tuples(st.integers(0, CAPACITY - 1), st.integers(0, 5)), max_size=CAPACITY, unique_by=lambda h: h[0])
SOME = st.lists(st.integers(0, CAPACITY - 1), unique=True)


def int32(values):
    return np.array(list(values), np.int32)


FIELDS = ["slot", "home", "count", "frequency", "last", "timestamp", "state", "generation"]  # an Entry's values


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
    """A view that says what some truth says, and the planner that it belongs to; entry i has row i."""

    def __init__(self, truth, masks=(0,) * CAPACITY, room=4):
        self.memory = View(np.zeros(CAPACITY, ROW), np.zeros(room, CHANGE), np.arange(1, CAPACITY + 1, dtype=np.int32))
        self.rows["mask"], self.rows["entry"] = masks, range(CAPACITY)
        for row, entry in zip(self.rows, truth):
            row["count"], row["slot"], row["home"], row["frequency"] = (
                entry.count, entry.slot, entry.home, entry.frequency)
        self.planner = planner(rows_used=CAPACITY, rows_held=np.count_nonzero(self.rows["mask"]))

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
