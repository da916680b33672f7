"""The example with two tables: its losses are the same whichever way it is written and wherever its rows live.

It runs once by itself, as a user runs it; then many times in one process and with one daemon, as starting TensorFlow
and workers takes longest.
"""
import itertools
import json
import os
import shutil

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, run
from tests.support.daemons import ROOT, DaemonProcess
from tests.support.programs.running import RING_BYTES

pytestmark = [pytest.mark.timeout_s(300), pytest.mark.usefixtures("forked_programs")]

STEPS, INTERVAL, EVAL_STEPS = 12, 6, 2
SIZES = ["--steps", str(STEPS), "--train_interval", str(INTERVAL), "--eval_steps", str(EVAL_STEPS),
         "--saving_interval", str(INTERVAL), "--losses", "losses.txt"]
SWITCHES = {
    "graph_modification": ["--modify_graph"], "estimator": ["--use_estimator"], "host_rows": ["--cache_mode", "DDR"],
    "rows_on_disk": ["--cache_mode", "SSD"], "static_shapes": ["--static"],
    "expansion": ["--use_dynamic_expansion"], "tuples": ["--tuple_batch"],
    "one_shot_iterators": ["--one_shot"], "wrong_step_counts": ["--declared_steps", "5"]}
SEVERAL = {
    "all_but_the_estimator": [option for switch in SWITCHES if switch not in ("estimator", "expansion")
                              for option in SWITCHES[switch]] + ["--dump_graph"],
    "all_but_host_rows": [option for switch in SWITCHES if switch not in ("host_rows", "rows_on_disk")
                          for option in SWITCHES[switch]]}
ADMISSION = ["--access_and_evict"]


def losses(folder, name="losses.txt"):
    """Lines "train" and "eval", with the losses of both tasks; in the order of the steps each."""
    # An Estimator evaluates within the step that saves.
    return sorted((folder / name).read_text().splitlines(), key=lambda line: line.split()[0])


def run_in_one_process(folder, programs):
    """Run the example with each of several lists of options, in folders of their names."""
    runs = [[str(folder / name), *SIZES, *options] for name, options in programs.items()]
    daemon = DaemonProcess("two-tables", ring_bytes=RING_BYTES)
    try:
        code, out, err = run(os.path.join(PROGRAMS, "ascend_two_tables.py"), json.dumps(runs),
                             options=["--daemon", daemon.name], **QUIET)
    finally:
        daemon.end()
    assert code == 0, "{}\n{}".format(out, err)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder where the program has run as it is without switches."""
    folder = tmp_path_factory.mktemp("base")
    code, _, err = run(os.path.join(ROOT, "examples/two_tables/main.py"), *SIZES, cwd=folder, **QUIET)
    assert code == 0 and err.endswith("Demo done!\n"), err
    shutil.copy(str(folder / "losses.txt"), str(folder / "first.txt"))
    return folder


@pytest.fixture(scope="module")
def others(base, tmp_path_factory):
    """A folder with those where the program has run with switches."""
    folder = tmp_path_factory.mktemp("others")
    # The first one in the folder where it has run before.
    run_in_one_process(folder, {
        str(base): SWITCHES["host_rows"], **SEVERAL, "admission": ADMISSION,
        "admission_otherwise": [*ADMISSION, *SEVERAL["all_but_host_rows"]]})
    return folder


def test_the_program_trains_evaluates_and_saves(base):
    assert len(set(losses(base))) == STEPS + EVAL_STEPS * (STEPS // INTERVAL)
    saved = sorted(name for name in os.listdir(str(base / "saved-model")) if name.startswith("sparse-"))
    assert saved == ["sparse-model-0-{}".format(step) for step in (0, STEPS, INTERVAL)]


@pytest.mark.usefixtures("others")
def test_a_second_run_begins_with_the_first_checkpoint(base):
    assert losses(base) == losses(base, "first.txt")


@pytest.mark.parametrize("name", SEVERAL)
def test_losses_are_the_same_with(name, base, others):
    assert losses(others / name) == losses(base)


def test_admission_and_eviction_change_losses_the_same_way_in_two_different_programs(base, others):
    found = losses(others / "admission")
    assert not set(found[EVAL_STEPS + 1:]) & set(losses(base))
    assert losses(others / "admission_otherwise") == found


def test_the_graph_before_and_after_modification_can_be_looked_at(others):
    written = set(os.listdir(str(others / "all_but_the_estimator/export_graph")))
    assert {"old_graph.pbtxt", "new_graph.pbtxt"} <= written


@pytest.mark.long
def test_losses_are_the_same_with_each_switch(base, tmp_path):
    run_in_one_process(tmp_path, SWITCHES)
    for name in SWITCHES:
        assert losses(tmp_path / name) == losses(base), name


@pytest.mark.long
def test_losses_are_the_same_with_any_two_switches(base, tmp_path):
    pairs = {"-".join(pair): [*SWITCHES[pair[0]], *SWITCHES[pair[1]]] for pair in itertools.combinations(SWITCHES, 2)}
    run_in_one_process(tmp_path, pairs)
    assert not [name for name in pairs if losses(tmp_path / name) != losses(base)]
