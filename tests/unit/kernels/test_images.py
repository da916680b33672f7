"""Images: what is kept of the entries that a record changes."""
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.kernels import images
from ascpipe.kernels.entry import IMAGE_INT64_COLUMNS, INT64_COLUMNS
from tests.reference import images as reference

CAPACITY = 12
CHANGED = st.lists(st.integers(0, CAPACITY - 1), unique=True)
PLACES = st.integers(0, CAPACITY)


def run_kernels(records, bound):
    """Log and marks as the kernels and as the twins have them; each record is (changed, copied)."""
    entries = np.arange(CAPACITY * INT64_COLUMNS, dtype=np.int64).reshape(CAPACITY, INT64_COLUMNS)
    log, marks, end = np.full((CAPACITY, IMAGE_INT64_COLUMNS), -7, np.int64), np.zeros(bound, np.uint8), 0
    expected, marked = [], set()
    for changed, copied in records:
        array = np.array(changed, np.int32)
        need = images.count_unkept(array, copied, marks)
        assert need == reference.count_unkept(changed, copied, bound, marked)
        before, end = end, images.keep_images(array, copied, marks, entries, log, end)
        assert end == reference.keep_images(changed, copied, bound, marked, entries.tolist(), expected)
        assert end == before + need
        entries[changed] += 1000
    return log, end, marks, expected, marked


@settings(deadline=None)
@given(st.lists(st.tuples(CHANGED, PLACES), max_size=5), PLACES)
def test_images_are_the_references(records, bound):
    log, end, marks, expected, marked = run_kernels(records, bound)
    assert [(row[0], tuple(row[1:])) for row in log[:end].tolist()] == expected
    assert set(np.flatnonzero(marks)) == marked
    assert (log[end:] == -7).all()


@settings(deadline=None)
@given(st.lists(CHANGED, max_size=5), st.lists(PLACES, min_size=5, max_size=5), PLACES)
def test_each_changed_entry_is_in_the_copy_or_in_the_log_once_as_it_was(changes, places, bound):
    copied = sorted(places)
    log, end, _, _, _ = run_kernels(list(zip(changes, copied)), bound)
    numbers = log[:end, 0].tolist()
    assert len(set(numbers)) == end
    must_be = {number for changed, below in zip(changes, copied) for number in changed if below <= number < bound}
    assert set(numbers) == must_be
    at_the_begin = np.arange(CAPACITY * INT64_COLUMNS).reshape(CAPACITY, INT64_COLUMNS)
    assert (log[:end, 1:] == at_the_begin[numbers]).all()


@settings(deadline=None)
@given(st.lists(st.tuples(CHANGED, PLACES), max_size=5), PLACES)
def test_marks_that_are_made_anew_from_the_log_are_those_that_were_lost(records, bound):
    log, end, marks, expected, _ = run_kernels(records, bound)
    again = np.zeros(bound, np.uint8)
    images.mark_kept(log, end, again)
    assert again.tolist() == marks.tolist()
    assert set(np.flatnonzero(again)) == reference.mark_kept(expected)
