"""Programs that read files are killed at any moment and started again: each trains every batch once, bit by bit.

Programs are forked from a process that has imported TensorFlow. ``TEST_KILLS`` is the number of kills in the
long forms.
"""
import json
import os
import pathlib
import random
import re
import signal
import sys
import threading

import numpy as np
import psutil
import pyarrow.parquet  # noqa: F401  (its import opens descriptors, which stay open)
import pytest

from ascpipe.checkpoint.reader import open_checkpoint
from tests.support import parquets, tfrecords
from tests.support.checkpoints import by_key
from tests.support.daemons import ROOT, DaemonProcess, is_alive
from tests.support.examples import example, feature
from tests.support.forked_calls import RING_BYTES, environment
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("fork_server")]

STEPS = 30  #: 77 records in batches of 8, three times
WAYS = ["session", "monitored", "estimator", "evaluate", "per_epoch"]
DAEMON = "reads"
KILLS = int(os.environ.get("TEST_KILLS", "40"))  #: of each long form
LONG = [pytest.mark.long, pytest.mark.timeout_s(200 + 30 * KILLS)]


@pytest.fixture(scope="module")
def programs(fork_server, _module_leaves_nothing_behind):
    """Forks programs, which have one daemon, one after the other."""
    daemon = DaemonProcess(DAEMON, spared=True, ring_bytes=RING_BYTES, ring_frames=16)
    try:
        yield fork_server
    finally:
        daemon.end()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    records = [example([("number", feature("int64", [number])),
                        ("user", feature("int64", [number * number % 37, number % 11])),
                        ("item", feature("int64", [number * place % 53 for place in range(number % 5)])),
                        ("label", feature("float32", [number % 2])),
                        ("more", feature("string", [b"x" * 5000]))])  # far apart, so that the files are kept in memory
               for number in range(77)]
    return [tfrecords.write(folder / "{}.tfrecord".format(name), part) for name, part in
            (("a", records[:30]), ("b", records[30:]))]


@pytest.fixture(scope="module")
def parquet_files(tmp_path_factory):
    """The same records in two Parquet files, in row groups of 9."""
    folder = tmp_path_factory.mktemp("parquet")

    def write(name, numbers):
        numbers = np.array(numbers)
        return parquets.write(folder / (name + ".parquet"), {
            "number": numbers, "label": (numbers % 2).astype(np.float32),
            "user": np.stack([numbers * numbers % 37, numbers % 11], 1).tolist(),
            "item": parquets.pyarrow.array([[int(number * place % 53) for place in range(number % 5)]
                                            for number in numbers], parquets.pyarrow.list_(parquets.pyarrow.int64()))},
            9)

    return [write("a", range(30)), write("b", range(30, 77))]


def case_of(way, folder, files, **more):
    every = 5 if way == "evaluate" else 3  # steps; an evaluation takes a second
    return {"way": way, "folder": str(folder), "files": files, "steps": STEPS, "every": every, **more}


def begun(programs, case, daemon=DAEMON):
    """Begin a program on a daemon, or on a private one if the name is empty."""
    return programs.call("python", ["-m", "tests.support.programs.reading", json.dumps(case)], ROOT,
                         environment(ring_frames=16, **({"name": daemon} if daemon else {})))


def trained(out, history, evaluations):
    """Add the complete lines of a program. Steps that are trained again have the same ids and losses."""
    for line in out.splitlines(keepends=True):
        found = re.fullmatch(r"(eval )?([0-9]+) (.*)\n", line)
        if found:
            where = evaluations if found.group(1) else history
            assert where.setdefault(int(found.group(2)), found.group(3)) == found.group(3), line


def final_state(folder):
    """Rows and slots by key, and the variables, in the checkpoint of the last step."""
    (name,) = [path.name[:-len(".index")] for path in folder.glob("*-{}.index".format(STEPS))]
    with open_checkpoint(str(folder / name)) as checkpoint:
        state = {table: by_key(checkpoint.blocks(table)) for table in checkpoint.tables}
    assert set(state) == {"user", "item"}
    return {**state, "variables": (folder / (name + ".data-00000-of-00001")).read_bytes()}


@pytest.fixture(scope="module")
def undisturbed(programs, files, tmp_path_factory):
    """By way: (history, evaluations, state) of a run without kills."""
    known = {}

    def of(way, **more):
        key = way, *more
        if key not in known:
            folder = tmp_path_factory.mktemp(way) / "model"
            program = begun(programs, {**case_of(way, folder, files), **more})
            assert program.wait(120) == 0, program.err
            history, evaluations = {}, {}
            trained(program.out, history, evaluations)
            assert sorted(history) == list(range(1, STEPS + 1))
            known[key] = history, evaluations, final_state(folder)
        return known[key]

    return of


def require_same(found, undisturbed, way, **more):
    """A program that is killed in a save has not printed the step before it, but the final state shows the step."""
    history, evaluations, state = found
    expected = undisturbed(way, **more)
    assert {**expected[0], **history} == expected[0]
    assert len(expected[0]) - len(history) <= KILLS
    for step, value in evaluations.items():
        assert expected[1].get(step, value) == value
    assert state == expected[2]


def killed_until_the_end(programs, case, folder, kills, draw, act, daemon=DAEMON):
    """Start a program, and ``act`` on it after some steps, until it was disturbed ``kills`` times. Then let it end."""
    history, evaluations, disturbed, lengths = {}, {}, 0, []
    while True:
        program = begun(programs, {**case, "step_s": 0.03 if disturbed < kills else 0}, daemon)
        lines = draw.randrange(0, 9)
        wait_until(lambda: program.out.count("\n") >= lines or not is_alive(program.pid), 100.0, "some steps")  # noqa: B023
        threading.Event().wait(draw.uniform(0.0, 0.15))
        is_disturbed = disturbed < kills and is_alive(program.pid) and "end" not in program.out
        if is_disturbed:
            act(program)
            disturbed += 1
        code = program.wait(120)
        trained(program.out, history, evaluations)
        lengths.append(program.out.count("\n"))
        if code == 0:
            break
        assert is_disturbed, program.err
    assert program.out.endswith("end\n"), program.err
    sys.stdout.write("{}: {} kills, steps of each start: {}\n".format(case["way"], disturbed, lengths))
    return disturbed, (history, evaluations, final_state(folder))


def require_exact(programs, case, kills, draw, act, expected, daemon=DAEMON):
    """Disturb programs in new folders until ``kills`` kills were made. ``expected`` checks each program."""
    made = 0
    for number in range(kills):
        folder = pathlib.Path(case["folder"]) / str(number)
        disturbed, found = killed_until_the_end(programs, {**case, "folder": str(folder)}, folder, kills - made, draw,
                                                act, daemon)
        expected(found)
        made += disturbed
        if made == kills:
            return
    raise AssertionError("only {} of {} kills were made".format(made, kills))


def kill(program):
    os.kill(program.pid, signal.SIGKILL)


@pytest.mark.parametrize("way, kills", [
    ("session", 2), ("evaluate", 1), ("per_epoch", 1),
    *(pytest.param(way, KILLS, marks=LONG) for way in WAYS)])
def test_a_program_that_is_killed_trains_every_batch_once(programs, files, undisturbed, tmp_path, seed, way, kills):
    require_exact(programs, case_of(way, tmp_path, files), kills, random.Random(seed), kill,
                  lambda found: require_same(found, undisturbed, way))


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=LONG)])
def test_a_killed_program_with_parquet_files_and_a_transform_trains_every_batch_once(
        programs, files, parquet_files, undisturbed, tmp_path, seed, kills):
    more = {"files": parquet_files, "transform": "tests.support.programs.reading:other_users"}
    require_exact(programs, {**case_of("session", tmp_path, files), **more}, kills, random.Random(seed), kill,
                  lambda found: require_same(found, undisturbed, "session", **more))
    assert undisturbed("session", **more)[0] != undisturbed("session")[0]


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=LONG)])
def test_a_program_whose_daemon_is_killed_has_e110_and_continues(programs, files, undisturbed, tmp_path, seed, kills):
    def kill_daemon(program):
        wait_until(lambda: program.out or not is_alive(program.pid), 60.0, "the first step")
        (daemon,) = [child.pid for child in psutil.Process(program.pid).children()
                     if "daemon" in " ".join(child.cmdline())]
        os.kill(daemon, signal.SIGKILL)
        assert program.wait(60) != 0
        assert "E110" in program.err

    require_exact(programs, case_of("session", tmp_path, files), kills, random.Random(seed), kill_daemon,
                  lambda found: require_same(found, undisturbed, "session"), daemon="")


@pytest.mark.parametrize("kinds, seeds", [
    ("table+key+table", 1),
    pytest.param("key+table+template", 10, marks=[pytest.mark.long, pytest.mark.timeout_s(900)])])
def test_killed_workers_change_no_batch_and_no_row(programs, files, undisturbed, tmp_path, seed, kinds, seeds):
    killed = 0
    for number in range(seeds):
        folder = tmp_path / str(number)
        program = begun(programs, case_of("session", folder, files, kills=kinds, seed=seed % 2 ** 31 + number,
                                          step_s=0.1))
        assert program.wait(120) == 0, program.err
        killed += int(re.search("killed ([1-9][0-9]*)", program.out).group(1))
        history, evaluations = {}, {}
        trained(program.out, history, evaluations)
        require_same((history, evaluations, final_state(folder)), undisturbed, "session")
    sys.stdout.write("{} workers were killed\n".format(killed))


@pytest.mark.long
def test_the_undisturbed_runs_have_the_records_of_each_epoch(undisturbed):
    """All ways train the same batches. Passes of an Estimator that is called per epoch have other orders."""
    ways = {way: undisturbed(way) for way in WAYS}
    for way in ("monitored", "estimator", "evaluate"):
        assert ways[way][0] == ways["session"][0]
    assert ways["evaluate"][1]
    orders = set()
    for way in ("session", "per_epoch"):
        lines = [line.split()[0] for _, line in sorted(ways[way][0].items())]
        for epoch in range(3):
            numbers = ",".join(lines[10 * epoch:10 * epoch + 10]).split(",")
            assert sorted(map(int, numbers)) == list(range(77))
            orders.add(tuple(numbers))
    assert len(orders) == 5  # the first epoch is the same
