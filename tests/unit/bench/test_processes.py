"""Processor time and wake-ups of other processes: theirs, and nothing of ours."""
import os
import subprocess
import sys
import time

import pytest

from bench.processes import children_of, cpu_clock, wake_ups


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


def test_a_process_that_sleeps_does_not_wake_and_one_that_looks_again_and_again_does():
    with subprocess.Popen([sys.executable, "-c", "import select, sys\nprint(flush=True); input()\n"
                           "for _ in range(20): select.select([], [], [], .001)\nprint(flush=True); input()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as looker:
        looker.stdout.readline()
        before, ours = wake_ups(looker.pid), time.process_time()
        while time.process_time() < ours + 0.1:
            pass
        assert wake_ups(looker.pid) <= before + 5
        looker.stdin.write(b"\n")
        looker.stdout.readline()
        assert wake_ups(looker.pid) >= before + 20
        looker.stdin.write(b"\n")


def test_threads_are_counted_by_their_names_and_children_found_by_their_titles():
    assert wake_ups(os.getpid(), "no thread is called so") == 0
    with subprocess.Popen([sys.executable, "-c", "import setproctitle; setproctitle.setproctitle('ascpipe: a b of c')\n"
                           "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert children_of(os.getpid()).get("a b") == child.pid
        child.communicate(b"\n")
