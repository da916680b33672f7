"""Rings whose size nobody has set begin small; all others have what was set."""
import os

import pytest

from ascpipe.config import load_settings
from ascpipe.control import messages
from ascpipe.daemon.ring_sizes import ring_sizes
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.layout import structs
from ascpipe.shm import memory

GIB, MIB = 1 << 30, 1 << 20


def allocated(fd):
    return os.fstat(fd).st_blocks * 512


@pytest.fixture
def places(tmp_path):
    """A machine of 8 GiB without control groups, and without /dev/shm."""
    (tmp_path / "meminfo").write_text("MemTotal: {0} kB\nMemAvailable: {0} kB\n".format(8 * GIB // 1024))
    return memory.Places(str(tmp_path / "shm"), str(tmp_path / "meminfo"), "/none", "/none")


def settings(**values):
    return load_settings({}, {"ASCPIPE_" + name.upper(): str(value) for name, value in values.items()})


@pytest.mark.parametrize("private", [True, False])
def test_rings_grow_to_a_part_of_the_memory(places, private):
    sizes = ring_sizes(settings(), private=private, places=places)
    assert (sizes.first, sizes.ample, sizes.private) == (MIB, 256 * MIB, private)
    assert abs(sizes.most - 2 * GIB) < structs.PAGE and sizes.reserved == sizes.most
    half = ring_sizes(settings(ring_percent=50), private=private, places=places)
    assert abs(half.most - 4 * GIB) < structs.PAGE


def test_where_all_memory_is_little_nothing_grows_beyond_its_part(places, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 131072 kB\nMemAvailable: 131072 kB\n")
    sizes = ring_sizes(settings(), private=True, places=places)
    assert sizes.ample == sizes.most == 32 * MIB


@pytest.mark.parametrize("private, bytes_", [
    (False, 5 * MIB), (True, 5 * MIB), (True, 256 * MIB),  # set to the default's value is set
])
def test_rings_whose_size_was_set_do_not_grow(places, private, bytes_):
    sizes = ring_sizes(settings(ring_bytes=bytes_), private=private, places=places)
    assert sizes == (bytes_, bytes_, 0, 0, private)


def made(places, **values):
    start = messages.Start((messages.Stream(0, 0, (0,)), messages.Stream(1, 1, (0,))),
                           (messages.Table(0, "user", 4, 100),), b"x" * messages.TOKEN_BYTES)
    return SessionMemory(start, settings(**values), 1, places, private=True)


def test_a_ring_that_grows_has_its_addresses_and_little_memory(places):
    session = made(places)
    try:
        header = session.session.view(structs.SESSION)[0]
        assert (header["rings_ample"], header["is_private"]) == (256 * MIB, 1)
        session.add_stream(messages.Stream(2, 1, (0,)))
        for ring in session.rings:
            fields = ring.view(structs.RING)[0]
            assert fields["arena_bytes"] == MIB
            assert fields["arena_offset"] + header["rings_most"] == ring.size
            assert allocated(ring.fd) == fields["arena_offset"] + MIB
    finally:
        session.close()


def test_a_ring_that_was_set_has_all_its_memory_at_once(places):
    session = made(places, ring_bytes=5 * MIB)
    try:
        assert session.session.view(structs.SESSION)[0]["rings_most"] == 0
        for ring in session.rings:
            assert allocated(ring.fd) == ring.size == int(ring.view(structs.RING)[0]["arena_offset"]) + 5 * MIB
    finally:
        session.close()


def test_where_dev_shm_cannot_hold_what_rings_may_grow_to_they_are_memfds(places):
    small = places._replace(shm_dir="/dev/shm")
    sizes = ring_sizes(settings(), private=True, places=small)
    free = memory.shm_room("/dev/shm").free_bytes
    assert sizes._replace(most=free).use_memfd(False, small) and not sizes._replace(most=MIB).use_memfd(False, small)
    assert sizes._replace(most=MIB).use_memfd(True, small)
