"""A disk that answers now and then is slow, one that never does is dead."""
import pytest

from ascpipe.daemon.disk_silence import DiskSilence
from ascpipe.errors import DiskSilentError

PATIENCE_S = 120.0


def disks(read=0, written=0, under_way=4):
    other = {"directory": "/b", "rows_read": 7, "rows_written": 0, "under_way": 0}
    return [{"directory": "/a", "rows_read": read, "rows_written": written, "under_way": under_way}, other]


def looked(silence, seconds, begin=0.0, every=1.0, is_awaited=True, calls=9, **seen):
    """Look from ``begin`` on; the errors that come of it."""
    times = [begin + every * number for number in range(int(seconds / every) + 1)]
    for now in times:
        silence.look(disks(**seen), calls, now, is_awaited=is_awaited)
        yield silence.verdict(disks(**seen), PATIENCE_S)


def test_a_disk_that_ends_no_operation_is_dead_after_its_patience():
    silence = DiskSilence()
    *before, last = looked(silence, 120)
    assert not any(before)
    assert isinstance(last, DiskSilentError)
    assert "for 120 s (disk_patience_s)" in str(last) and "operations in flight: 4 in /a." in str(last)


@pytest.mark.parametrize("other", [{"read": 1}, {"written": 1}, {"calls": 10}, {"is_awaited": False}, {"under_way": 0}])
def test_one_that_ends_an_operation_or_is_not_waited_for_is_not(other):
    silence = DiskSilence()
    assert not any(looked(silence, 119))
    assert not any(looked(silence, 0, 120.0, **other))
    assert silence.seconds == 0.0


def test_a_disk_that_ends_one_operation_in_119_seconds_has_any_time():
    silence = DiskSilence()
    for number in range(20):
        assert not any(looked(silence, 118, 119.0 * number, read=number))


def test_time_without_a_look_does_not_count():
    silence = DiskSilence()
    assert not any(looked(silence, 2 * 3600, every=3600.0))
    assert silence.seconds == 4.0


def test_without_a_limit_nothing_is_dead():
    silence = DiskSilence()
    list(looked(silence, 1000))
    assert silence.verdict(disks(), 0.0) is None
