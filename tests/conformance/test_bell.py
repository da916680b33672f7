"""Two processes ring each other, whatever each is written in: nobody oversleeps."""
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numba
import numpy as np
import pytest

from ascpipe.layout import generate, structs
from ascpipe.layout.words import WAIT_PLAN
from ascpipe.shm import bell, segment, syscalls

MANY, SOME = 20_000, 3_000

PARTNER = """
import sys
import numpy as np
from ascpipe.kernels import atomics
from ascpipe.layout import structs
from ascpipe.shm import bell, segment
fd, spin_us, plain, rounds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "plain", int(sys.argv[4])
memory = segment.map(fd, structs.SESSION_BYTES + 4096)
words = memory[structs.SESSION_BYTES:].view(np.uint32)
mine, other = bell.Bell(memory, 1, spin_us), bell.Bell(memory, 0, spin_us)
for turn in range(1, rounds + 1):
    ready = lambda: atomics.load_acquire_u32(words, 0) == turn
    if not mine.wait(ready, lambda: False, 20.0):
        sys.exit("round {} never came".format(turn))
    atomics.exchange_u32(words, 16, turn)
    bell.ring_plain(memory, 0) if plain else other.ring()
"""


@pytest.fixture
def memory():
    fd = syscalls.memfd_create("bells")
    try:
        os.ftruncate(fd, structs.SESSION_BYTES + 4096)
        syscalls.add_seals(fd)
        yield fd, segment.map(fd, structs.SESSION_BYTES + 4096)
    finally:
        os.close(fd)


@pytest.fixture(scope="module")
def native_partner(tmp_path_factory):
    """The C++ side of a bell, as a program."""
    program = tmp_path_factory.mktemp("native") / "bell_partner"
    source = Path(__file__).resolve().parents[2] / "tfops/src"
    generate.generate(program.parent)
    subprocess.run(["g++", "-std=c++14", "-O2", "-I", str(source), "-I", str(program.parent),
                    str(Path(__file__).with_name("bell_partner.cc")), str(source / "core/bell.cc"), "-o", str(program)],
                   check=True)
    return [str(program)]


@pytest.fixture
def partner_command(request, way):
    return request.getfixturevalue("native_partner") if way == "native" else [sys.executable, "-c", PARTNER]


def counters(memory, index):
    words = memory[structs.SESSION_BELLS_OFFSET:structs.SESSION_BYTES].view(structs.BELL)[index]
    return int(words["sleeps"]), int(words["late"])


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="the plain twins are atomic within one process only")
@pytest.mark.parametrize("spin_us, way, rounds", [
    (0, "compiled", MANY), (20, "compiled", SOME), (0, "plain", SOME), (0, "native", SOME), (20, "native", SOME),
])
def test_two_processes_ring_each_other_without_a_lost_wake_up(memory, partner_command, spin_us, way, rounds):
    from ascpipe.kernels import atomics

    fd, array = memory
    words = array[structs.SESSION_BYTES:].view(np.uint32)
    arguments = [str(fd), str(spin_us), way, str(rounds)]
    partner = subprocess.Popen([*partner_command, *arguments], pass_fds=[fd])
    try:
        mine, other = bell.Bell(array, 0, spin_us), bell.Bell(array, 1, spin_us)
        for turn in range(1, rounds + 1):
            atomics.exchange_u32(words, 0, turn)
            other.ring()
            assert mine.wait(lambda t=turn: atomics.load_acquire_u32(words, 16) == t, lambda: False, 20.0), turn
        assert partner.wait(20) == 0
    finally:
        partner.kill()
        partner.wait()
    (sleeps, late), (partner_sleeps, partner_late) = counters(array, 0), counters(array, 1)
    # who spins first may find every answer in time, on an idle machine
    assert spin_us or sleeps + partner_sleeps > rounds / 100, "nobody ever slept, so nothing was tried"
    assert (late, partner_late) == (0, 0)


def test_publishing_without_ringing_is_counted_as_late(memory):
    _, array = memory
    mine = bell.Bell(array, 0)
    flag = []
    timer = threading.Timer(0.01, flag.append, [1])
    timer.start()
    assert mine.wait(lambda: bool(flag), lambda: False, 5.0)
    timer.join()
    assert counters(array, 0)[1] == 1


def test_waiting_ends_with_its_time(memory):
    _, array = memory
    mine = bell.Bell(array, 0)
    start = time.monotonic()
    assert not mine.wait(lambda: False, lambda: False, 0.12)
    assert time.monotonic() - start >= 0.12
    assert counters(array, 0)[1] == 0


def test_slices_double_up_to_the_longest_so_that_a_long_wait_looks_rarely(memory, monkeypatch):
    _, array = memory
    asked = []
    monkeypatch.setattr(bell.syscalls, "futex_wait", lambda address, seen, longest_s: asked.append(longest_s))
    mine = bell.Bell(array, 0)
    assert not mine.wait(lambda: False, lambda: len(asked) == 7, 60.0, 0.4)
    assert asked == [0.05, 0.1, 0.2, 0.4, 0.4, 0.4, 0.4]
    asked.clear()
    assert not mine.wait(lambda: False, lambda: len(asked) == 3, 60.0)
    assert asked == [bell.SLICE_S] * 3


def test_a_stop_is_seen_without_a_ring(memory):
    _, array = memory
    mine = bell.Bell(array, 0)
    stop = threading.Event()
    timer = threading.Timer(0.02, stop.set)
    timer.start()
    assert not mine.wait(lambda: False, stop.is_set, 60.0)
    timer.join()


def test_what_the_owner_waits_for_can_be_read_by_others(memory):
    _, array = memory
    bell.Bell(array, 3).says(WAIT_PLAN, 2, 41)
    told = array[structs.SESSION_BELLS_OFFSET:structs.SESSION_BYTES].view(structs.BELL)[3]
    assert (told["waits_for"], told["waits_table"], told["waits_ticket"]) == (WAIT_PLAN, 2, 41)


@pytest.mark.parametrize("index", [-1, structs.BELLS])
def test_there_is_no_bell_outside_the_session(memory, index):
    with pytest.raises(IndexError):
        bell.ring_plain(memory[1], index)


def test_a_plain_ring_loads_no_numba():
    code = "import sys; import ascpipe.shm.bell, ascpipe.shm.segment; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
