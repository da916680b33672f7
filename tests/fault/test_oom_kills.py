"""The kernel ends a process of a control group whose memory is used up: a worker, the supervisor, the trainer."""
import json
import re

import pytest

from ascpipe.control import trainer_link
from ascpipe.errors import OutOfSharedMemoryError
from tests.support import leaks
from tests.support.daemons import LAYOUT, DaemonProcess, is_alive, serving, small_session
from tests.support.memory_group import memory_group
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]
SPARE_BYTES = 32 << 20
BY_THE_KERNEL = (r"{} worker 0 \(pid \d+\) exited: killed by SIGKILL because memory ran out: the control group is at "
                 r"its limit")


@pytest.fixture
def group():
    with memory_group() as made:
        yield made


@pytest.fixture
def begin():
    """Begins a program, which is killed at the end."""
    begun = []

    def one(*arguments, **settings):
        begun.append(running.begin(*arguments, **settings))
        return begun[-1]

    yield one
    for trainer in begun:
        trainer.kill()
        trainer.communicate()


@pytest.fixture
def daemon(group, monkeypatch):
    """A daemon with all of its processes in the group."""
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(running.RING_BYTES))
    with group.entered():
        made = DaemonProcess("unit")
    yield made
    made.end()


def steps_done(daemon):
    return max([table["batches"] for table in daemon.status()["tables"]] or [0])


def test_a_worker_that_the_kernel_ends_is_replaced_and_the_result_is_as_undisturbed(
        group, daemon, begin, monkeypatch):
    (undisturbed,) = running.run("tiers", "trained")
    monkeypatch.setenv("TEST_STEP_S", "0.03")
    trainer = begin("tiers", "trained", name="unit")
    wait_until(lambda: steps_done(daemon) > 2, 60.0)
    group.limit(SPARE_BYTES)
    group.use_up(kills=1)
    out, err = trainer.communicate(timeout=100)
    assert trainer.returncode == 0, err
    told = json.loads(out)
    assert (told["losses"], told["state"]) == (undisturbed["losses"], undisturbed["state"])
    assert group.kills > 0
    assert re.search(BY_THE_KERNEL.format("key"), daemon.log())  # it has no state, so it is the first to go


@pytest.mark.long
def test_a_worker_that_the_kernel_ends_again_and_again_ends_the_session_with_a_code_and_the_reason(group, daemon):
    with serving(daemon):
        group.limit(SPARE_BYTES)
        while daemon.status()["state"] == "serving":
            if all(worker["attached"] for worker in daemon.workers()):
                group.use_up(kills=group.kills + 1)
        failure = daemon.status()["failure"]
    assert failure.startswith("E140: key worker 0 was restarted 5 times")
    assert "killed by SIGKILL because memory ran out" in failure
    wait_until(lambda: daemon.status()["state"] == "idle")


def test_a_supervisor_that_the_kernel_ends_is_an_error_of_the_next_step_and_nothing_is_left(group, begin, run_home):
    trainer = begin("deaths", "endless")
    pids = json.loads(trainer.stdout.readline())
    group.add_victim(pids["daemon"])
    group.limit(SPARE_BYTES)
    group.use_up(kills=1)
    out, err = trainer.communicate(timeout=60)
    assert trainer.returncode == 0, err
    assert "E110" in json.loads(out)["text"]
    wait_until(lambda: not leaks.our_processes(run_home))
    DaemonProcess("unit").end()  # sweeps what it left


@pytest.mark.long
def test_of_a_trainer_that_the_kernel_ends_nothing_is_left(group, begin, run_home):
    trainer = begin("deaths", "endless")
    pids = json.loads(trainer.stdout.readline())
    group.add_victim(trainer.pid)
    group.limit(SPARE_BYTES)
    group.use_up(kills=1)
    trainer.communicate(timeout=60)
    assert trainer.returncode == -9
    wait_until(lambda: not any(map(is_alive, [pids["daemon"], *pids["workers"]])))
    wait_until(lambda: not leaks.our_processes(run_home))


def test_memory_beyond_the_limit_is_refused_before_the_kernel_ends_what_allocates_it(group, daemon):
    group.limit(running.RING_BYTES)
    link = trainer_link.connect("unit", layout=LAYOUT)
    try:
        with pytest.raises(OutOfSharedMemoryError, match="E401.*limit of the control group.*" + group.path.name):
            link.start(*small_session())
        assert (group.kills, daemon.status()["state"]) == (0, "registered")
    finally:
        link.close()
