"""Too little shared memory: another kind, or an error with numbers before anything is allocated."""
import os
import subprocess
import sys

import pytest

from ascpipe.control import messages, trainer_link
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.layout import structs
from ascpipe.shm import segment, syscalls
from tests.support.daemons import LAYOUT, RING_BYTES, ROOT, DaemonProcess, small_session, use_standins

GIB = 1 << 30


@pytest.fixture
def places(monkeypatch, tmp_path):
    """A machine of our making: ``shm`` may be missing, ``meminfo`` and ``groups`` are files."""
    use_standins(monkeypatch)
    monkeypatch.setenv("ASCPIPE_X_STANDIN_PLACES", str(tmp_path))
    (tmp_path / "shm").mkdir()
    (tmp_path / "meminfo").write_text("MemAvailable: {} kB\n".format(8 * GIB // 1024))
    (tmp_path / "groups").write_text("0::/job\n")
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.max").write_text("max")
    (tmp_path / "job" / "memory.current").write_text("0")
    return tmp_path


@pytest.fixture
def link(places):
    made = []

    def connect():
        made.append(DaemonProcess("unit"))
        made.append(trainer_link.connect("unit", layout=LAYOUT))
        return made[-1]

    yield connect
    for thing in reversed(made):
        thing.close() if isinstance(thing, trainer_link.TrainerLink) else thing.end()


def kinds(pieces):
    return {syscalls.seals_of(fd) == syscalls.SEALS
            for fd, _ in [pieces.session, *pieces.streams.values(), *pieces.tables.values()]}


def test_where_dev_shm_is_large_it_is_used(link):
    assert kinds(link().start(*small_session())) == {False}


def test_where_dev_shm_is_small_sealed_memfds_take_its_place(places, link):
    (places / "shm").rmdir()
    pieces = link().start(*small_session())
    assert kinds(pieces) == {True}
    assert segment.map(*pieces.session)[:structs.SESSION.itemsize].view(structs.SESSION)[0]["magic"] == structs.MAGIC


def test_a_memory_limit_that_is_too_small_is_an_error_with_numbers_and_the_daemon_goes_on(places, link):
    trainer = link()
    (places / "job" / "memory.max").write_text(str(GIB))
    (places / "job" / "memory.current").write_text(str(GIB - (1 << 20)))
    with pytest.raises(OutOfSharedMemoryError) as caught:
        trainer.start(*small_session())
    text = str(caught.value)
    for words in ("E401", ": 0.0", "2 rings and 1 tables", "limit of the control group is 1.00 GiB, used 1.00 GiB",
                  "8.00 GiB available", "Nothing was started", "--ring-bytes"):
        assert words in text
    status = trainer.status()
    assert (status["state"], status["tables"]) == ("registered", [])
    (places / "job" / "memory.max").write_text("max")
    trainer.start(*small_session())


def test_more_than_the_machine_has_is_refused_at_start(places, link, monkeypatch):
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(5 * GIB))
    with pytest.raises(OutOfSharedMemoryError, match=r"10\.0.* are needed.*the machine has 8\.00 GiB available"):
        link().start(*small_session())


INSIDE = """
import subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/dev/shm"], check=True)
from ascpipe.control import launch, trainer_link
from ascpipe.shm import syscalls
from tests.support import daemons
launch.MODULE = daemons.STANDIN
link = trainer_link.connect(layout=daemons.LAYOUT)
pieces = link.start(*daemons.small_session())
kinds = {syscalls.seals_of(fd) == syscalls.SEALS for fd, size in [pieces.session, *pieces.streams.values()]}
link.close()
sys.exit(0 if kinds == {True} else 1)
"""


def test_a_really_small_dev_shm_of_a_container(monkeypatch):
    use_standins(monkeypatch)
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], stderr=subprocess.DEVNULL)
    if probe.returncode != 0:
        pytest.skip("mounting in a namespace of its own is not permitted here")
    result = subprocess.run(["unshare", "-m", sys.executable, "-c", INSIDE], cwd=ROOT, env=dict(os.environ))
    assert result.returncode == 0


def test_a_stream_for_which_there_is_no_memory_is_refused_and_the_session_goes_on(places, link):
    made = link()
    made.start(*small_session())
    (places / "job" / "memory.max").write_text(str(1 << 20))
    with pytest.raises(OutOfSharedMemoryError, match="E401.*the ring of stream 5"):
        made.add_stream(messages.Stream(5, 1, (0,)))
    assert (made.status()["state"], len(made.status()["rings"])) == ("serving", 2)
    (places / "job" / "memory.max").write_text("max")
    assert made.add_stream(messages.Stream(5, 1, (0,)))[1] > RING_BYTES
    assert len(made.status()["rings"]) == 3
