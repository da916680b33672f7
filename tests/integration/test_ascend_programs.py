"""Models of several kinds, as users of Ascend servers write them, each a process under ``ascpipe run``.

What a program gives must not depend on where its rows live, or on which of several ways it is written in.
"""
import json
import math
import os

import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, run, served

pytestmark = [pytest.mark.timeout_s(300), pytest.mark.usefixtures("forked_programs")]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, _module_leaves_nothing_behind):
    """One for all programs, one after the other. It ends before the gate, also where the last test does not use it."""
    with served("programs", tmp_path_factory.mktemp("programs")) as name:
        yield name


@pytest.fixture
def told(daemon, tmp_path):
    """Runs a program in a folder of its own, and gives what it printed as JSON."""
    def run_program(name, *arguments, folder, ends_with=0):
        path = tmp_path / folder
        path.mkdir()
        code, out, err = run(os.path.join(PROGRAMS, name + ".py"), *arguments, options=["--daemon", daemon],
                             cwd=path, **QUIET)
        assert code == ends_with, err
        return json.loads(out)

    return run_program


def test_a_model_with_several_tasks_trains_in_loops_and_is_restored_by_a_second_session(told):
    in_loops = told("ascend_multi_task", "--saved", "saved", folder="loops")
    assert in_loops["evaluations"][0] == in_loops["evaluations"][1]
    assert in_loops["saved"] == ["sparse-model-12", "sparse-model-16"]
    assert in_loops["table"] == ["usertable", "itemtable"]
    single = told("ascend_multi_task", "--saved", "saved", "--iterations", "1", folder="single")
    assert (len(single["losses"]), single["saved"]) == (16, ["sparse-model-15", "sparse-model-16"])
    assert (single["losses"][3::4], single["sizes"][3::4]) == (in_loops["losses"], in_loops["sizes"])
    assert single["evaluations"] == in_loops["evaluations"]


def test_optimizers_of_a_program_scale_losses_and_leave_infinite_steps_out(told):
    device = told("ascend_dlrm", "--saved", "saved", folder="device")
    infinite = 7
    assert [step for step, loss in enumerate(device["losses"]) if math.isnan(loss)] == [infinite]
    # The scale grows with every fifth step, and halves with the one that was left out.
    assert device["scales"] == [1024.0] * 4 + [2048.0] * 3 + [1024.0] * 2 + [2048.0] * 5 + [4096.0] * 5 + [8192.0] * 5
    assert any(later < sooner for sooner, later in zip(device["sizes"], device["sizes"][1:]))
    assert len(device["evaluations"]) == 2


@pytest.mark.long
def test_optimizers_of_a_program_do_the_same_with_host_rows(told):
    found = [told("ascend_dlrm", "--saved", "saved", *arguments, folder=str(len(arguments)))
             for arguments in ([], ["--host-rows", "100"])]
    assert str(found[0]) == str(found[1])


def test_a_wide_and_deep_estimator_trains_evaluates_and_predicts_in_turns(told):
    host = told("ascend_wide_deep", "--model", "model", "--host-rows", "200", folder="host")
    assert (host["step"], len(host["losses"]), len(host["predictions"])) == (18, 18, 10)
    assert [found["global_step"] for found in host["evaluations"]] == [7.0, 18.0]
    assert host["evaluations"][-1]["auc"] > 0.9


@pytest.mark.long
def test_a_wide_and_deep_estimator_does_the_same_with_host_rows(told):
    assert told("ascend_wide_deep", "--model", "model", "--host-rows", "200", folder="host") == told(
        "ascend_wide_deep", "--model", "model", folder="device")


@pytest.mark.parametrize("switches", [
    ["--modify-graph"], pytest.param(["--modify-graph", "--expansion"], marks=pytest.mark.long)], ids="".join)
def test_a_cross_network_reads_files_that_are_named_at_run_time(told, switches):
    features = told("ascend_dcn", "--files", ".", folder="features", ends_with=3)
    assert (len(features["train"]), len(features["eval"])) == (15, 3)
    for switch in switches:
        assert told("ascend_dcn", "--files", ".", switch, folder=switch, ends_with=3) == features
