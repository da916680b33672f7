"""Requests of readers: the disk worker takes each request once."""
from types import SimpleNamespace

import numpy as np
import pytest

from ascpipe.kernels.disk_asks import take_requests, writes_are_in_flight
from ascpipe.layout import structs
from ascpipe.layout.words import (
    REQUEST_ASKED,
    REQUEST_DONE,
    REQUEST_EMPTY,
    REQUEST_FAILED,
    REQUEST_READ,
    REQUEST_TAKEN,
    REQUEST_WRITE,
)
from tests.reference import disk_asks as twins

WORDS = (REQUEST_EMPTY, REQUEST_ASKED, REQUEST_TAKEN, REQUEST_DONE, REQUEST_FAILED)


@pytest.mark.parametrize("n", [0, 1, 200])
def test_requests_are_taken_as_by_the_twin_and_only_once(n, seed):
    random = np.random.RandomState(seed)
    requests = np.zeros(n, structs.REQUEST)
    requests["word"] = random.choice(WORDS, n)
    requests["kind"] = random.choice((REQUEST_READ, REQUEST_WRITE), n)
    expected = [SimpleNamespace(word=int(each["word"]), kind=int(each["kind"])) for each in requests]
    reads, writes = np.zeros((2, max(n, 1)), np.int64)
    for _ in range(2):
        counts = take_requests(requests, reads, writes)
        wanted = twins.take_requests(expected)
        assert (reads[:counts[0]].tolist(), writes[:counts[1]].tolist()) == wanted
        assert requests["word"].tolist() == [each.word for each in expected]
    assert wanted == ([], [])


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", [REQUEST_READ, REQUEST_WRITE])
def test_writes_are_in_flight_until_they_are_done_or_have_failed_as_by_the_twin(word, kind):
    requests = np.zeros(3, structs.REQUEST)
    requests["word"], requests["kind"] = REQUEST_DONE, REQUEST_WRITE
    requests[2]["word"], requests[2]["kind"] = word, kind
    expected = [SimpleNamespace(word=int(each["word"]), kind=int(each["kind"])) for each in requests]
    in_flight = kind == REQUEST_WRITE and word in (REQUEST_ASKED, REQUEST_TAKEN)
    assert writes_are_in_flight(requests) == twins.writes_are_in_flight(expected) == in_flight
