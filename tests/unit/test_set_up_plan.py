"""Set-up does what is left to do, at the same time where it can, and says how long that will take."""
import importlib.util
import itertools

import pytest

from tests.support import tree

spec = importlib.util.spec_from_file_location("set_up_plan", str(tree.ROOT / "scripts/set_up_plan.py"))
plan = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plan)

ALL = plan.Found(environment=True, packages=True, dev=True, kept=False, tree=True, libraries=True, kernels=True)
NOTHING = plan.Found(*[False] * 7)._replace(dev=True)


def names(found):
    return [task.name for task in plan.tasks(found)]


def after(found, name):
    return {task.name: task.after for task in plan.tasks(found)}[name]


# ---- what there is to do

def test_only_the_ops_are_looked_at_where_all_is_done():
    assert names(ALL) == ["ops"]


def test_a_fresh_clone_does_everything_and_keeps_its_environment_last():
    assert names(NOTHING) == ["environment", "packages", "tensorflow", "tree", "kernels", "core", "ops", "keep"]
    assert set(after(NOTHING, "keep")) == set(names(NOTHING)) - {"keep"}


def test_kernels_and_the_core_wait_for_packages_but_not_for_tensorflow():
    waits = {task.name: set(task.after) for task in plan.tasks(NOTHING)}
    assert waits["kernels"] == {"environment", "packages", "tree"} and waits["core"] == {"packages"}
    assert waits["ops"] >= {"tensorflow", "core"}


def test_an_environment_from_the_cache_needs_no_pip_for_packages():
    found = NOTHING._replace(kept=True)
    assert names(found) == ["environment", "tree", "kernels", "ops"]
    assert after(found, "tree") == ("environment",)


def test_packages_for_tests_are_added_to_an_environment_that_has_the_others():
    found = ALL._replace(dev=False)
    assert names(found) == ["dev", "ops", "keep"]
    assert after(found, "dev") == ()


@pytest.mark.parametrize("name", ["tree", "kernels"])
def test_a_task_whose_stamp_is_old_is_done_again_alone(name):
    assert names(ALL._replace(**{name: False})) == [name, "ops"]


def test_each_task_waits_only_for_tasks_before_it():
    for found in itertools.product((False, True), repeat=7):
        tasks, done = plan.tasks(plan.Found(*found)), set()
        for task in tasks:
            assert done.issuperset(task.after)
            done.add(task.name)
        assert len(done) == len(tasks)


def test_a_task_begins_when_those_before_it_are_done():
    tasks = plan.tasks(NOTHING)
    assert [task.name for task in plan.ready(tasks, set())] == ["environment"]
    assert [task.name for task in plan.ready(tasks[1:], {"environment"})] == ["packages", "tensorflow"]


def test_kernels_that_are_in_the_cache_take_no_minute():
    texts = [[task.text for task in plan.tasks(NOTHING._replace(kernels_in_cache=known)) if task.name == "kernels"]
             for known in (False, True)]
    assert texts == [["compiling kernels"], ["looking at the kernels"]]
    compiled, known = (plan.remaining_s(plan.tasks(NOTHING._replace(kernels_in_cache=known)), {}, 0, 2)
                       for known in (False, True))
    assert compiled > known + 15


# ---- how long it takes

@pytest.mark.parametrize(("line", "parts"), [
    ("[3/28] compiled core-1", (3, 28)), ("[9/8] x", (8, 8)), ("[1/0] x", None), ("[a/b] x", None), ("[3/28]", None),
    ("3/28] x", None), ("", None)])
def test_progress_is_read_from_a_line(line, parts):
    assert plan.progress_in(line) == parts


def test_a_task_that_says_nothing_is_never_done_by_its_time():
    task = plan.Task("kernels", "", (), 10)
    assert plan.fraction(task, 5, None) == 0.25
    assert plan.fraction(task, 10 ** 6, None) < 1
    assert plan.fraction(task, 10 ** 6, (1, 4)) == 0.25


def test_the_estimate_begins_with_what_tasks_take_and_ends_at_zero():
    tasks = [plan.Task("a", "", (), 60), plan.Task("b", "", (), 40)]
    assert plan.remaining_s(tasks, {}, 0, 2) == 50
    assert plan.remaining_s(tasks, {}, 0, 1) == 100
    assert plan.remaining_s(tasks, {"a": 1.0, "b": 1.0}, 70, 2) == 0


def test_the_estimate_follows_the_speed_of_the_machine():
    tasks = [plan.Task("a", "", (), 100)]
    slow, fast = (plan.remaining_s(tasks, {"a": 0.5}, elapsed, 2) for elapsed in (200, 10))
    assert 130 < slow < 200 and 5 < fast < 20


def test_the_line_has_time_tasks_and_what_is_left():
    tasks = plan.tasks(NOTHING)
    line = plan.status(tasks, {"core": (3, 12), "kernels": None}, {"environment", "packages"}, 65, 130)
    assert line == ("1:05  2 of 8 done, about 2:10 left | compiling kernels, compiling C++ that needs no TensorFlow "
                    "3/12")


# ---- the lock

def test_a_lock_is_divided_by_names_with_its_hashes():
    text = "# comment\na==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"
    text += "tensorflow==1.15.5 \\\n    --hash=sha256:3\n"
    chosen, others = plan.split_lock(text, ("tensorflow",))
    assert chosen == "tensorflow==1.15.5 \\\n    --hash=sha256:3\n"
    assert others == "# comment\na==1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\n"


def test_no_requirement_of_the_lock_is_lost():
    text = (tree.ROOT / "requirements.lock").read_text()
    chosen, others = plan.split_lock(text, ("tensorflow", "pip"))
    assert chosen.count("==") == 2 and chosen.count("==") + others.count("==") == text.count("==")
    assert chosen.count("--hash") + others.count("--hash") == text.count("--hash")
    assert others.count("tensorflow-estimator==") == 1


@pytest.mark.parametrize("ran_s, parts, left_s", [
    (10.0, (4, 29), 48.0), (60.0, (1, 19), 510.0), (10.0, (28, 28), 0.0), (10.0, (0, 28), 0.0), (10.0, None, 0.0)])
def test_a_task_that_counts_its_parts_is_extrapolated(ran_s, parts, left_s):
    assert plan.remaining_of_parts_s(ran_s, parts) == left_s
