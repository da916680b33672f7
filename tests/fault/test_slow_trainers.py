"""A trainer that is slow holds the pipeline up: memory does not grow, and nothing spins."""
import sys
import threading
import time

import psutil
import pytest

from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]
STEP_S = 0.05
GROWTH_BYTES = 8 << 20  #: of all processes together
MOST_CPU = 0.3  #: of a processor, all processes of the daemon together


def measured(processes):
    """Bytes that are resident and private or shared, and seconds of processor time, of all."""
    used = [process.cpu_times() for process in processes]
    return (sum(process.memory_info().rss for process in processes),
            sum(times.user + times.system for times in used))


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_a_trainer_that_is_slow_lets_neither_memory_nor_processor_time_of_the_pipeline_grow(seconds, monkeypatch):
    monkeypatch.setenv("TEST_STEP_S", str(STEP_S))
    daemon = DaemonProcess("unit", ring_bytes=running.RING_BYTES)
    trainer = running.begin("deaths", "endless", name="unit")
    try:
        assert trainer.stdout.readline()

        def ring():
            (found,) = daemon.status()["rings"]
            return found

        wait_until(lambda: ring()["trained"] > 40)  # what is read ahead is there
        pipeline = [psutil.Process(pid) for pid in [daemon.pid, *(worker["pid"] for worker in daemon.workers())]]
        everything = [*pipeline, psutil.Process(trainer.pid)]
        before, begin, cpu = measured(everything)[0], time.monotonic(), measured(pipeline)[1]
        ahead, trained = ring()["submitted"] - ring()["trained"], ring()["trained"]
        threading.Event().wait(seconds)
        share = (measured(pipeline)[1] - cpu) / (time.monotonic() - begin)
        growth, now = measured(everything)[0] - before, ring()
        sys.stdout.write("{} batches in {:.0f} s, {} ahead: {:.1f} % of a processor, {} KiB more memory\n".format(
            now["trained"] - trained, seconds, ahead, 100 * share, growth >> 10))
        assert now["trained"] > trained
        assert abs(now["submitted"] - now["trained"] - ahead) <= 3, "batches are read ahead without end"
        assert growth < GROWTH_BYTES
        assert share < MOST_CPU

    finally:
        trainer.kill()
        trainer.communicate()
        daemon.end()
