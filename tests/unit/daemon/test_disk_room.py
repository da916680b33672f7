"""Whether a disk has room is counted over all files that lie on it."""
import pytest

from ascpipe.daemon.disk_room import Need, Shortage, shortage


@pytest.mark.parametrize("needs, found", [
    ([], None),
    ([Need(1, 100), Need(2, 50)], None),
    ([Need(1, 60), Need(1, 40)], None),
    ([Need(1, 60), Need(1, 41)], Shortage(1, 101, 100)),
    ([Need(1, 60), Need(2, 51), Need(1, 30)], Shortage(2, 51, 50)),
])
def test_what_files_on_one_disk_need_is_added_up(needs, found):
    assert shortage(needs, {1: 100, 2: 50}) == found
