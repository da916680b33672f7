"""A file of a trainer's spans has the last ones, whole, whatever the trainer does meanwhile."""
import mmap
import os

import numpy as np
import pytest

from ascpipe.layout import structs
from ascpipe.shm import spans, trainer_spans

HEADER_BYTES = structs.TRAINER_SPANS.itemsize


class Written:
    """Writes as ``tfops/src/core/span_ring.h`` does."""

    def __init__(self, path, capacity=4, rank=1, span=structs.EXCHANGE_SPAN):
        fd, size = trainer_spans.create(path, span, capacity, 77)
        memory = np.frombuffer(mmap.mmap(fd, size), np.uint8)
        os.close(fd)
        self.header = memory[:HEADER_BYTES].view(structs.TRAINER_SPANS)[0]
        self.spans = memory[HEADER_BYTES:].view(span)
        self.header["rank"], self.header["ranks"] = rank, 2

    def fill(self, **fields):
        """Write the next span, and do not count it yet."""
        span = self.spans[int(self.header["count"]) % len(self.spans)]
        for name, value in fields.items():
            span[name] = value

    def add(self, **fields):
        self.fill(**fields)
        self.header["count"] += 1


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "exchanges.spans")


def sequences(path):
    return [span.sequence for span in trainer_spans.read_exchanges(path).spans]


def test_a_span_says_when_an_exchange_was_and_what_was_in_it(path):
    written = Written(path)
    written.add(start_ns=1000, duration_ns=10, sequence=5, ticket=17, bytes_sent=3, bytes_received=4, waited_us=2,
                stream=1, kind=3, last=0)
    written.add(sequence=6, kind=6, last=-1)
    recorded = trainer_spans.read_exchanges(path)
    assert (recorded.rank, recorded.pid) == (1, 77)
    assert recorded.spans[0] == trainer_spans.ExchangeSpan(
        start_ns=1000, duration_ns=10, kind="backward", sequence=5, stream=1, ticket=17, bytes_sent=3,
        bytes_received=4, waited_us=2, last=0)
    assert (recorded.spans[1].kind, recorded.spans[1].last) == ("idle", None)
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_span_of_a_reader_has_the_times_of_a_batch(path):
    written = Written(path, span=structs.READING_SPAN)
    fields = {"start_ns": 1000, "read_us": 3, "parse_us": 4, "full_us": 5, "batch": 6, "epoch": 1, "records": 64,
              "source": 2, "thread": 99}
    written.add(**fields)
    recorded = trainer_spans.read_reading(path)
    assert (recorded.rank, recorded.pid, recorded.spans) == (1, 77, [trainer_spans.ReadingSpan(**fields)])


def test_the_last_ones_stay_and_the_one_that_may_be_written_over_is_left_out(path):
    written = Written(path)
    assert sequences(path) == []
    for number in range(4):
        written.add(sequence=number)
    written.fill(sequence=99)
    assert sequences(path) == [1, 2, 3]
    for number in range(4, 11):
        written.add(sequence=number)
    assert sequences(path) == [8, 9, 10]


def test_what_is_written_over_while_it_is_read_is_left_out(path, monkeypatch):
    written = Written(path)
    for number in range(4):
        written.add(sequence=number)

    class Overtaken(spans.io.FileIO):
        def readall(self):
            written.add(sequence=4)
            written.fill(sequence=5)
            data = super().readall()
            written.add(sequence=5)
            written.fill(sequence=6)
            return data

    monkeypatch.setattr(spans.io, "FileIO", Overtaken)
    assert sequences(path) == [3]


def test_nothing_is_read_before_the_trainer_has_the_file(path):
    fd, size = trainer_spans.create(path, structs.EXCHANGE_SPAN, 4, 77)
    assert os.fstat(fd).st_size == size
    os.close(fd)
    assert trainer_spans.read_exchanges(path) is None


def test_a_file_that_is_there_is_not_taken(path):
    open(path, "w").close()
    with pytest.raises(FileExistsError):
        trainer_spans.create(path, structs.EXCHANGE_SPAN, 4, 77)


@pytest.mark.parametrize("content", [b"", b"x" * 64, b"\0" * 4096])
def test_another_file_is_refused(path, content):
    with open(path, "wb") as file:
        file.write(content)
    with pytest.raises(ValueError, match="not a file of spans"):
        trainer_spans.read_exchanges(path)


def test_a_file_of_another_layout_is_refused(path):
    Written(path).header["version"] += 1
    with pytest.raises(ValueError, match="not a file of spans"):
        trainer_spans.read_exchanges(path)
