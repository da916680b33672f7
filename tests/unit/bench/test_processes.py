"""Processor time of other processes: theirs, and nothing of ours."""
import subprocess
import sys
import time

import pytest

from bench.processes import cpu_clock


def test_the_clock_of_a_process_that_sleeps_stands_still_while_we_work():
    with subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as sleeper:
        sleeper.stdout.readline()
        clock = cpu_clock([sleeper.pid])
        before, ours = clock(), time.process_time()
        while time.process_time() < ours + 0.2:
            pass
        assert clock() < before + 0.1
        sleeper.communicate(b"\n")


def test_a_process_that_has_not_begun_is_refused_for_its_number_would_be_ours():
    with pytest.raises(ValueError, match="not all there"):
        cpu_clock([1, 0])
