"""Tests and measurements wait for conditions; each file that lets time pass is listed here, with its reason."""
import ast
import re

from tests.support import tree

SLEEPS = {
    "tests/support/waiting.py": "looks at a condition again and again",
    "tests/support/leaks.py": "looks again whether a process has gone",
    "tests/support/programs/ascend_demo_loop.py": "a user's program that sleeps",
    "tests/support/programs/tiers.py": "kills a worker at any moment of a step",
    "tests/support/programs/deaths.py": "a trainer that is slow, a daemon that is stopped for seconds",
    "tests/tf/test_read_sessions.py": "counts threads again, and interrupts a process at any moment",
    "tests/fault/test_read_kills.py": "kills a process at any moment",
    "tests/ranks/test_read_kills.py": "kills a rank at any moment",
    "tests/support/programs/reading.py": "kills a worker at any moment of a step",
    "tests/fault/test_slow_trainers.py": "measures processes that wait for another one",
    "tests/support/programs/leaving.py": "lets a signal come while a call is under way",
    "tests/support/programs/ranked_lines.py": "a dataset whose data comes late",
    "tests/support/programs/ranked_faults.py": "a rank that is late",
    "tests/support/programs/resumed_ranks.py": "a model whose steps take time: a machine is lost between two saves",
    "tests/support/programs/pod_training.py": "a model whose steps take time: a pod is stopped between two saves",
    "tests/support/programs/rank_schedules.py": "delays threads of ranks at random places",
    "tests/tf/test_ops_step_order.py": "gives an op that is not ordered the time to run",
    "tests/fault/test_trainer_deaths.py": "kills a process at any moment of its start",
    "tests/fault/test_kills_in_number.py": "kills or interrupts a process at any moment",
    "tests/integration/test_resumed_training.py": "kills a trainer at any moment",
    "tests/fault/test_hangs.py": "a trainer is stopped for seconds",
    "tests/fault/test_stopped_starts.py": "stops a process at any moment of its start",
    "tests/cpp/test_waiter.cc": "nobody rings: a waiter must find by itself what has changed",
    "bench/cases/idle.py": "measures what processes cost that do nothing",
    "bench/cases/swap.py": "lets the processor's clock settle between two measurements",
    "bench/sessions.py": "a model that computes, and an input that comes late",
    "bench/usual_sides.py": "looks again whether a process has filled its buffers",
    "bench/processes.py": "looks again whether all workers have begun",
}
CPP_SLEEP = re.compile(r"\b(u|nano)?sleep\(|\bsleep_(for|until)\(")


def is_sleep(called):
    """``time.sleep`` or the ``wait`` of an event that is made for it, which nothing sets."""
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    if called.attr == "wait" and isinstance(owner, ast.Call):
        return "Event" in (getattr(owner.func, "attr", ""), getattr(owner.func, "id", ""))
    return called.attr == "sleep" and getattr(owner, "id", "") == "time"


def sleeps():
    """File and line of each."""
    for path in tree.python_files("tests", "bench"):
        for node in tree.nodes(path):
            if isinstance(node, ast.Call) and is_sleep(node.func):
                yield tree.name(path), node.lineno
    for path in tree.text_files(".cc", ".h"):
        if tree.name(path).startswith("tests/"):
            for number, line in enumerate(tree.lines(path), 1):
                if CPP_SLEEP.search(line):
                    yield tree.name(path), number


def test_conditions_are_waited_for_and_durations_are_not():
    wrong = ["{}:{}".format(*place) for place in sleeps() if place[0] not in SLEEPS]
    assert not wrong, "a sleep, whose reason SLEEPS does not tell, in\n" + "\n".join(wrong)


def test_every_file_that_may_sleep_does():
    assert set(SLEEPS) == {name for name, _ in sleeps()}


def test_all_forms_of_a_sleep_are_known():
    for text in ("time.sleep(1)", "threading.Event().wait(1)", "Event().wait(timeout=1)"):
        assert is_sleep(ast.parse(text).body[0].value.func), text
    for text in ("event.wait(1)", "process.wait()", "sleep.time(1)"):
        assert not is_sleep(ast.parse(text).body[0].value.func), text
    assert CPP_SLEEP.search("usleep(5);") and CPP_SLEEP.search("std::this_thread::sleep_for(x)")
