"""Too little memory is found out before anything is allocated, with numbers."""
import os
import pathlib

import pytest

from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory

GIB = 1 << 30
TINY = 4096


@pytest.fixture
def places(tmp_path):
    """A machine with 64 GiB left, no groups, and a /dev/shm as large as this file system."""
    (tmp_path / "meminfo").write_text("MemTotal: {} kB\nMemAvailable: {} kB\n".format(
        128 * GIB // 1024, 64 * GIB // 1024))
    (tmp_path / "groups").write_text("")
    return memory.Places(str(tmp_path), str(tmp_path / "meminfo"), str(tmp_path / "groups"), str(tmp_path / "cgroup"))


def make_group(places, own, folder, **files):
    with open(places.own_groups, "a") as file:
        file.write(own + "\n")
    path = pathlib.Path(places.group_root) / folder
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(str(text))


def test_posix_shared_memory_is_taken_where_it_fits(places):
    assert memory.preflight(TINY, "a test", places) is False


def test_a_small_dev_shm_means_memfd(places):
    free = memory.shm_room(places.shm_dir).free_bytes
    assert memory.preflight(free, "a test", places._replace(meminfo="/none")) is True


def test_a_missing_dev_shm_means_memfd(places):
    assert memory.preflight(TINY, "a test", places._replace(shm_dir="/nowhere")) is True


def test_the_machine_itself_may_have_too_little(places):
    with pytest.raises(OutOfSharedMemoryError, match=r"65\.00 GiB.*are needed.*the machine has 64\.00 GiB"):
        memory.preflight(65 * GIB, "a test", places)


@pytest.mark.parametrize("own, folder, names", [
    ("4:memory:/jobs/a", "memory/jobs/a", ("memory__limit_in_bytes", "memory__usage_in_bytes")),
    ("0::/jobs/a", "jobs/a", ("memory__max", "memory__current")),
    ("0::/jobs/a", "unified/jobs/a", ("memory__max", "memory__current")),
    ("0::/jobs/a", "jobs", ("memory__max", "memory__current")),  # the limit of a parent
    ("0::/seen/from/the/host", ".", ("memory__max", "memory__current")),  # inside a container
])
def test_a_group_limit_counts_what_is_used_already(places, own, folder, names):
    make_group(places, own, folder, **{names[0]: 4 * GIB, names[1]: 3 * GIB})
    assert memory.preflight(GIB - memory.MARGIN_BYTES, "a test", places._replace(shm_dir="/nowhere"))
    with pytest.raises(OutOfSharedMemoryError, match=r"limit of the control group is 4\.00 GiB, used 3\.00 GiB"):
        memory.preflight(GIB, "a test", places)


def test_page_cache_that_can_be_given_up_is_free(places):
    make_group(places, "0::/a", "a", memory__max=4 * GIB, memory__current=4 * GIB,
               memory__stat="anon 5\ninactive_file {}\n".format(2 * GIB))
    assert memory.preflight(GIB, "a test", places._replace(shm_dir="/nowhere"))


@pytest.mark.parametrize("limit", ["max\n", "9223372036854771712"])
def test_no_limit_is_no_limit(places, limit):
    make_group(places, "0::/a", "a", memory__max=limit, memory__current=4 * GIB)
    assert not memory.preflight(TINY, "a test", places)


def test_all_memory_is_that_of_the_machine_or_of_a_smaller_group(places):
    assert memory.limit_bytes(places._replace(meminfo="/none")) > 1 << 60
    assert memory.limit_bytes(places) == 128 * GIB
    make_group(places, "0::/a", "a", memory__max=4 * GIB, memory__current=3 * GIB)
    assert memory.limit_bytes(places) == 4 * GIB


@pytest.mark.parametrize("soft", ["unlimited", str(GIB)])
def test_the_address_space_of_this_process_counts_where_it_is_limited(places, tmp_path, soft):
    (tmp_path / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max address space         {:<20} unlimited            bytes     \n".format(soft))
    (tmp_path / "statm").write_text("{} 5 4 3 0 2 0\n".format((GIB // 2) // os.sysconf("SC_PAGE_SIZE")))
    places = places._replace(own_limits=str(tmp_path / "limits"), own_size=str(tmp_path / "statm"))
    if soft == "unlimited":
        memory.require(GIB, "a test", places=places)
        return
    memory.require(GIB // 4, "a test", places=places)
    with pytest.raises(OutOfSharedMemoryError, match=r"address space .* 1\.00 GiB \(ulimit -v\), used 0\.50 GiB"):
        memory.require(GIB // 2, "a test", places=places)


def test_this_machine_can_be_read():
    assert memory.machine_room(memory.Places().meminfo).free_bytes > 0
    memory.group_rooms(memory.Places())


@pytest.mark.parametrize("own, folder, counters", [
    ("4:memory:/jobs/a", "memory/jobs/a", {"memory__oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"}),
    ("0::/jobs/a", "jobs/a", {"memory__events": "low 0\noom 9\noom_kill 3\noom_group_kill 0\n"}),
    ("0::/seen/from/the/host", ".", {"memory__events": "oom_kill 3\n"}),  # inside a container
])
def test_what_the_kernel_has_ended_in_a_group_is_counted(places, own, folder, counters):
    make_group(places, own, folder, **counters)
    assert memory.oom_kills(places) == 3


def test_a_kernel_that_does_not_count_what_it_has_ended_is_no_error(places):
    assert memory.oom_kills(places) is None
    make_group(places, "4:memory:/a", "memory/a", memory__oom_control="oom_kill_disable 0\nunder_oom 0\n")
    assert memory.oom_kills(places) is None
