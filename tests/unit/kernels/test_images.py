"""Images: what is kept of the entries that a record changes."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import images
from ascpipe.kernels.records import IMAGE
from ascpipe.layout.structs import ENTRY
from tests.reference import images as reference

CAPACITY = 12
CHANGED = st.lists(st.integers(0, CAPACITY - 1), unique=True)
COPIED = st.integers(0, CAPACITY)


def first_entries():
    return np.arange(CAPACITY * 6, dtype=np.int64).view(ENTRY)


def contents(log):
    """The entries that images hold."""
    return np.ascontiguousarray(log).view(np.int64).reshape(-1, 7)[:, 1:].copy().view(ENTRY).reshape(-1)


def run_kernels(records, bound):
    """Log and marks as the kernels and as the twins have them; each record is (changed, copied)."""
    entries = first_entries()
    log, marks, end = np.full(CAPACITY * 7, -7, np.int64).view(IMAGE), np.zeros(bound, np.uint8), 0
    expected, marked = [], set()
    for changed, copied in records:
        array = np.array(changed, np.int32)
        need = images.count_unkept(array, copied, marks)
        assert need == reference.count_unkept(changed, copied, bound, marked)
        before, end = end, images.keep_images(array, copied, marks, entries, log, end)
        assert end == reference.keep_images(changed, copied, bound, marked, entries.tolist(), expected)
        assert end == before + need
        entries.view(np.int64).reshape(CAPACITY, -1)[changed] += 1000
    return log, end, marks, expected, marked


@settings(deadline=None)
@given(st.lists(st.tuples(CHANGED, COPIED), max_size=5), COPIED)
def test_images_are_the_references(records, bound):
    log, end, marks, expected, marked = run_kernels(records, bound)
    assert list(zip(log["entry"][:end].tolist(), contents(log[:end]).tolist())) == expected
    assert set(np.flatnonzero(marks)) == marked
    assert (log[end:].view(np.int64) == -7).all()


@settings(deadline=None)
@given(st.lists(CHANGED, max_size=5), st.lists(COPIED, min_size=5, max_size=5), COPIED)
def test_each_changed_entry_is_in_the_copy_or_in_the_log_once_as_it_was(changes, places, bound):
    copied = sorted(places)
    log, end, _, _, _ = run_kernels(list(zip(changes, copied)), bound)
    numbers = log["entry"][:end].tolist()
    assert len(set(numbers)) == end
    must_be = {number for changed, below in zip(changes, copied) for number in changed if below <= number < bound}
    assert set(numbers) == must_be
    assert contents(log[:end]).tolist() == first_entries()[numbers].tolist()


@settings(deadline=None)
@given(st.lists(st.tuples(CHANGED, COPIED), max_size=5), COPIED)
def test_marks_that_are_made_anew_from_the_log_are_those_that_were_lost(records, bound):
    log, end, marks, expected, _ = run_kernels(records, bound)
    again = np.zeros(bound, np.uint8)
    images.mark_kept(log, end, again)
    assert again.tolist() == marks.tolist()
    assert set(np.flatnonzero(again)) == reference.mark_kept(expected)
