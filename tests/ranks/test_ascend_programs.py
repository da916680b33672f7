"""Programs for Ascend servers on two ranks, unmodified, by ``ascpipe run --ranks 2``.

Each rank of a demo makes the same batches, so that the mean of two gradients is that of one: what two ranks train is
what one does. Switches that count occurrences count those of both ranks: there two modes are compared.
"""
import glob
import json
import os

import numpy as np
import pytest

from tests.integration import test_ascend_criteo as criteo
from tests.integration import test_ascend_demos as demos
from tests.integration.test_ascend_demos import DDR, DYNAMIC, EXPANSION, FLAGS, HBM, MODIFIED, named
from tests.support.ascend_programs import DONE, EXPORTED, PROGRAMS, Refused, plain
from tests.support.several_ranks import ascpipe_run, ended, needs_horovod, said

pytestmark = [needs_horovod, pytest.mark.timeout_s(600)]

RANKS = 2
records_of = criteo.records_of
COUNTS = ("timestamps", "four_lookups_are_counted")
SHORT = ("single", 1)  # host rows, a modified graph, static shapes


def switches_of(group):
    """Ranks that fetch batches for themselves would make a folder by the same name."""
    return [{name: value for name, value in one.items() if name != "PRECISION_CHECK"} for one in demos.TRAINED[group]]


def sizes_of(switches, ranks):
    """As programs have them: what is sent to a rank is a share of the keys."""
    send_count = demos.SIZES["user_send_cnt"] // ranks
    return {**demos.sizes_of(switches), "user_send_cnt": send_count, "item_send_cnt": send_count,
            "user_vocab_size": 1000}


def run(name, ranks, folder, sizes, *flags, **switches):
    """What each rank of a program printed as JSON."""
    os.makedirs(str(folder), exist_ok=True)
    variables = {**EXPORTED, "RANK_SIZE": str(ranks), "DEMO_SIZES": json.dumps(sizes),
                 **{key: str(value) for key, value in switches.items()}}
    code, out, err = ended(ascpipe_run(ranks, os.path.join(PROGRAMS, name + ".py"), *flags), cwd=folder, **variables)
    if code != 0 or err.count(DONE) != ranks:
        raise Refused("{} {} {} ended with {}\n{}".format(name, flags, switches, code, err))
    return [json.loads((said(out, rank) if ranks > 1 else out.splitlines())[-1]) for rank in range(ranks)]


def demo(ranks, folder, mode, switches):
    return run("ascend_demo", ranks, folder, sizes_of(switches, ranks), USE_MODE=mode, **switches)


def close(one, other):
    """Whether lists of lists of losses are the same to 1e-5; one-shot iterators have no second evaluation."""
    same = [(first, second) for first, second in zip(one, other) if len(first) == len(second) > 0]
    return same and all(np.allclose(first, second, rtol=1e-5) for first, second in same)


@pytest.mark.parametrize("switches", [
    pytest.param(switches, marks=[] if (group, number) == SHORT else pytest.mark.long)
    for group in demos.TRAINED if group not in COUNTS for number, switches in enumerate(switches_of(group))], ids=named)
def test_two_ranks_of_the_session_demo_train_and_predict_what_one_does(tmp_path, switches):
    one, = demo(1, tmp_path / "1", "train", switches)
    two = demo(RANKS, tmp_path / "2", "train", switches)
    for told in two:
        assert len(told["losses"]) == demos.STEPS
        assert close(told["losses"], one["losses"]) and close(told["evaluations"], one["evaluations"])
    assert np.sum([told["sizes"][-1] for told in two], axis=0).tolist() == one["sizes"][-1]
    assert len(glob.glob(str(tmp_path / "2/saved-model/sparse-model-*"))) == demos.STEPS // demos.INTERVAL
    for told, before in zip(demo(RANKS, tmp_path / "2", "predict", switches), two):
        assert "USE_ONE_SHOT" in switches or plain(told["evaluations"]) == plain(before["evaluations"][-1:])


@pytest.mark.long
@pytest.mark.parametrize("group", COUNTS)
def test_two_ranks_that_count_occurrences_do_it_alike_in_both_modes(tmp_path, group):
    first, second = (demo(RANKS, tmp_path / str(number), "train", switches)
                     for number, switches in enumerate(switches_of(group)))
    for one, other in zip(first, second):
        assert demos.same(one, other)


@pytest.mark.long
@pytest.mark.parametrize("group", demos.TRAINED)
def test_two_ranks_load_and_train_on_as_they_do_in_another_mode(tmp_path, group):
    found = []
    for number, switches in enumerate(switches_of(group)[:2]):
        demo(RANKS, tmp_path / str(number), "train", switches)
        found.append(demo(RANKS, tmp_path / str(number), "load_and_train", switches))
    for one, other in zip(*found):
        assert demos.same(one, other)


def estimator(ranks, folder, mode, switches):
    return run("ascend_demo_estimator", ranks, folder, sizes_of(switches, ranks), *FLAGS, RUN_MODE=mode, **switches)


@pytest.mark.long
def test_two_ranks_of_the_estimator_demo_train_evaluate_predict_and_export_alike_in_both_modes(tmp_path):
    """Its tables add the gradients of ranks up, so one rank would train with half of them."""
    ways = {"features": {**HBM, **DYNAMIC}, "modified": {**DDR, **MODIFIED, "USE_TUPLE_DATA_FORMAT": 1, "USE_DP": 1}}
    told = {way: estimator(RANKS, tmp_path / way, "train_and_evaluate", ways[way]) for way in ways}
    predicted = {way: estimator(RANKS, tmp_path / way, "predict", {**ways[way], "USE_EXPORT_SAVED_MODEL": 1})
                 for way in ways}
    for one, other in zip(told["features"], told["modified"]):
        assert (len(one["train"]), len(one["eval"])) == (demos.E_STEPS, demos.EVAL_STEPS * 2)
        for what in ("train", "eval", "sizes"):
            assert plain(one[what]) == plain(other[what])
    for one, other in zip(predicted["features"], predicted["modified"]):
        assert len(one["predictions"]) == demos.SIZES["eval_batch_num"]
        assert plain(one["predictions"]) == plain(other["predictions"])
    for way in ways:
        assert len(glob.glob(str(tmp_path / way / "model_path/*/saved_model.pb"))) == RANKS


@pytest.mark.long
@pytest.mark.parametrize("switches", [
    {**HBM, **DYNAMIC, **MODIFIED, "ENABLE_SLICER_TEST": 1},
    {**HBM, **EXPANSION, "USE_TIMESTAMP": 1, "USE_ONE_SHOT": 1},
    {**HBM, **EXPANSION, **MODIFIED, "USE_TIMESTAMP": 1, "USE_EXPORT_SAVED_MODEL": 1}], ids=named)
def test_two_ranks_of_the_estimator_demo_train_with(tmp_path, switches):
    for told in estimator(RANKS, tmp_path, "train", switches):
        assert len(told["train"]) == demos.E_STEPS and np.all(np.isfinite(told["train"]))


@pytest.mark.long
@pytest.mark.parametrize("pair", criteo.PAIRS)
@pytest.mark.parametrize("name", criteo.NAMES)
def test_two_ranks_train_alike_in_both_modes(tmp_path, records_of, name, pair):
    told = []
    for number, switches in enumerate(criteo.PAIRS[pair]):
        sizes = {**criteo.SIZES, "send_count": criteo.SIZES["send_count"] // RANKS}
        told.append(run(name, RANKS, tmp_path / str(number), {**sizes, "lines": criteo.LINES.get(name, 1)},
                        TRAIN_RANK_SIZE=RANKS, DLRM_CRITEO_DATA_PATH=records_of(name), INTERVAL=criteo.INTERVAL,
                        **switches))
    steps = {of_rank["step"] for of_rank in told[0]}
    assert len(steps) == 1 and steps.pop() >= criteo.STEPS // RANKS
    assert plain(told[0]) == plain(told[1])
