"""A file of spans has the last ones, whole, whatever its writer does meanwhile."""
import os

import pytest

from ascpipe.shm import spans


def add(ring, number):
    ring.add(1000 * number, 10, 0, [number, number + 1, number + 2], [1, 0, 2])


def starts(path):
    return [span.start_ns // 1000 for span in spans.read(path).spans]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table-0.spans")


def test_a_span_says_when_it_was_and_what_was_done(path):
    ring = spans.SpanRing(path, 8, "table", 3)
    add(ring, 40)
    assert spans.read(path) == spans.Recorded("table", 3, os.getpid(), [
        spans.Span(40000, 10, 0, [("touch", 1, 40), ("retire", 2, 42)])])
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_the_last_ones_stay_and_the_one_that_may_be_written_over_is_left_out(path):
    ring = spans.SpanRing(path, 8, "table", 0)
    for number in range(8):
        add(ring, number)
    assert starts(path) == list(range(1, 8))
    for number in range(8, 21):
        add(ring, number)
    assert starts(path) == list(range(14, 21))


def test_a_worker_that_replaces_another_goes_on_in_its_file(path):
    add(spans.SpanRing(path, 8, "key", 0), 1)
    add(spans.SpanRing(path, 8, "key", 0), 2)
    assert starts(path) == [1, 2]
    add(spans.SpanRing(path, 16, "key", 0), 3)  # a daemon with another setting begins anew
    assert starts(path) == [3]


@pytest.mark.parametrize("content", [b"", b"x" * 64, b"\0" * 4096])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match="other: not a file of spans"):
        spans.read(str(tmp_path / "other"))


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path, path):
    (tmp_path / "precious").write_text("x")
    os.symlink(str(tmp_path / "precious"), path)
    with pytest.raises(OSError):
        spans.SpanRing(path, 8, "key", 0)
    assert (tmp_path / "precious").read_text() == "x"
