"""Counters of readers in the status."""
import numpy as np

from ascpipe.daemon import statistics
from ascpipe.layout import structs


def test_a_trainer_that_reads_nothing_has_no_counters():
    assert statistics.reading(np.zeros(1, structs.READING)[0]) is None


def test_counters_keep_their_names_and_times_are_in_seconds():
    record = np.zeros(1, structs.READING)[0]
    for number, name in enumerate(structs.READING.names, 1):
        record[name] = number * 10**6
    assert statistics.reading(record) == {
        "records": 10**6, "bytes": 2 * 10**6, "batches": 3 * 10**6, "skipped": 4 * 10**6, "read_s": 5.0,
        "parse_s": 6.0, "full_s": 7.0, "waited_s": 8.0, "readers": 9 * 10**6}


def test_the_counters_are_between_the_exchanges_and_the_end():
    assert structs.SESSION_EXCHANGES_OFFSET + structs.EXCHANGES.itemsize <= structs.SESSION_READING_OFFSET
    assert structs.SESSION_READING_OFFSET + structs.READING.itemsize <= structs.SESSION_BYTES
