"""Four models over TFRecord files in the order of calls that real programs have: losses, evaluations and counts do not
depend on whether ids are FeatureSpecs or tensors of a modified graph, nor on the tier."""
import csv
import os

import numpy as np
import pytest

from tests.support.ascend_programs import PROGRAMS, QUIET, demo, plain, run, served
from tests.support.records import write_records

pytestmark = [pytest.mark.timeout_s(300), pytest.mark.usefixtures("forked_programs")]

STEPS, INTERVAL, EVAL_STEPS = 65, 20, 2  #: of the data, which end in the midst of a run of ten iterations
SIZES = {
    "batch_size": 8, "dim": 4, "hbm_rows": 1000, "ddr_rows": [330, 1000], "send_count": 330, "bottom": [8], "top": [8],
    "deep": [8], "expert": 4, "experts": 2, "tower": 4, "cross_layers": 2, "dense_lr": 0.1, "sparse_lr": 0.1,
    "epochs": [1, 2], "evict_interval": 1, "threads": 1}
LINES = {"ascend_criteo_dlrm": 4, "ascend_criteo_dcn_v2": 4}  #: of a record; of the others it is 1
TASKS = {"ascend_census_mmoe": 2}
NAMES = ["ascend_criteo_dlrm", "ascend_criteo_dcn_v2", "ascend_criteo_wide_deep", "ascend_census_mmoe"]
MODIFIED = {"USE_MODIFY_GRAPH": 1}
LARGE, SMALL, FIXED = {"CACHE_MODE": "HBM"}, {"CACHE_MODE": "DDR"}, {"USE_DYNAMIC": 0}
COUNTED = {"USE_FAAE": 1, "USE_MULTI_LOOKUP": 1}
OF_THE_CARD = {"USE_LCCL": 1, "USE_SHM_SWAP": 1, "HUGE_TLB_ENABLE": 1, "USE_DP": 1}
EXPANSION = {"CACHE_MODE": "HBM", "USE_DYNAMIC_EXPANSION": 1}
#: Two runs of a program that compute the same.
PAIRS = {
    "plain": ({**LARGE}, {**SMALL, **FIXED, **MODIFIED, **OF_THE_CARD}),
    "admission_of_four_lookups": ({**SMALL, **COUNTED}, {**LARGE, **COUNTED, **MODIFIED})}
SHORT = [("ascend_criteo_dlrm", "plain"), ("ascend_census_mmoe", "admission_of_four_lookups")]
MORE_PAIRS = {
    "admission": ({**LARGE, **FIXED, "USE_FAAE": 1}, {**SMALL, "USE_FAAE": 1, **MODIFIED}),
    "four_lookups": ({**SMALL, **FIXED, "USE_MULTI_LOOKUP": 1}, {**LARGE, "USE_MULTI_LOOKUP": 1, **MODIFIED}),
    "expansion": ({**EXPANSION}, {**EXPANSION, **MODIFIED}),
    "expansion_counted": ({**EXPANSION, **COUNTED}, {**EXPANSION, **COUNTED, **MODIFIED})}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, _module_leaves_nothing_behind):
    """One for all programs, one after the other. It ends before the gate, also where the last test does not use it."""
    with served("criteo", tmp_path_factory.mktemp("programs")) as name:
        yield name


@pytest.fixture(scope="module")
def records_of(tmp_path_factory):
    """The folder of a program's records, which is made when it is asked for."""
    made = {}

    def give(name):
        make = {"ascend_criteo_wide_deep": write_lines, "ascend_census_mmoe": write_census}.get(name, write_criteo)
        if make not in made:
            made[make] = tmp_path_factory.mktemp("records")
            make(made[make])
        return made[make]

    return give


def write_criteo(folder):
    batch = SIZES["batch_size"]
    write_records(folder, [("label", 1, int), ("sparse_feature", 26, int), ("dense_feature", 13, float)], 4,
                  (batch // 4 * STEPS, batch // 4), vocabulary=520)


def write_lines(folder):
    write_records(folder, [("label", 1, int), ("sparse", 26, int), ("dense", 13, int)], 1,
                  (SIZES["batch_size"] * STEPS, SIZES["batch_size"]), vocabulary=520)


def write_census(folder):
    """By the program that makes these records of a text."""
    written = []
    for part, count, seed in (("train", SIZES["batch_size"] * STEPS, 1), ("test", SIZES["batch_size"], 2)):
        os.makedirs(str(folder / part))
        written += [str(folder / (part + ".csv")), str(folder / part / "0.tfrecord")]
        write_census_lines(written[-2], count, seed)
    code, out, err = run(os.path.join(PROGRAMS, "ascend_census_records.py"), *written, **QUIET)
    assert (code, out) == (0, "Demo done!\n"), err


def write_census_lines(path, count, seed):
    """Lines of two labels, 29 numbers of categories, 11 numbers."""
    random = np.random.RandomState(seed)
    with open(str(path), "w", newline="") as file:
        writer = csv.writer(file)
        for _ in range(count):
            writer.writerow([*random.randint(0, 2, 2), *(random.randint(0, 15, 29) + 15 * np.arange(29)),
                             *random.randint(0, 50, 11) / 10.0])


@pytest.fixture(scope="module")
def trained(daemon, records_of, tmp_path_factory):
    """Runs a program with some switches, once; what it told."""
    done = {}

    def train(name, switches):
        key = name, str(sorted(switches.items()))
        if key not in done:
            sizes = {**SIZES, "lines": LINES.get(name, 1)}
            environment = {"TRAIN_RANK_SIZE": 1, "DLRM_CRITEO_DATA_PATH": records_of(name), "INTERVAL": INTERVAL,
                           **switches}
            done[key] = demo(name, daemon, tmp_path_factory.mktemp("run"), sizes, **environment)
        return done[key]

    return train


def assert_same(trained, name, pair):
    one, other = (trained(name, switches) for switches in pair)
    assert (one["step"], len(one["evaluations"])) == (STEPS + 5, STEPS // INTERVAL)
    assert len(one["losses"]) == STEPS // 10  # of the last of the iterations in each run
    assert len(one["evaluations"][0]["losses"]) == EVAL_STEPS
    assert 0 < one["labels"][0] < SIZES["batch_size"] * EVAL_STEPS * TASKS.get(name, 1)
    assert len(set(map(plain, one["losses"]))) > 1
    assert plain(other) == plain(one)
    return one


@pytest.mark.parametrize("name, pair", [
    pytest.param(name, pair, marks=[] if (name, pair) in SHORT else [pytest.mark.long])
    for name in NAMES for pair in PAIRS])
def test_losses_evaluations_and_counts_are_the_same_in_both_modes(name, pair, trained):
    assert_same(trained, name, PAIRS[pair])


@pytest.mark.long
@pytest.mark.parametrize("pair", MORE_PAIRS)
@pytest.mark.parametrize("name", NAMES)
def test_losses_evaluations_and_counts_are_the_same_also_with(name, pair, trained):
    assert_same(trained, name, MORE_PAIRS[pair])


def test_each_of_four_lookups_counts_its_ids(trained):
    """Threshold 2: with one lookup an id has to come twice."""
    four = trained("ascend_census_mmoe", {**LARGE, **COUNTED, **MODIFIED})
    one = trained("ascend_census_mmoe", {**LARGE, "USE_FAAE": 1, **MODIFIED})
    assert four["sizes"][0] > one["sizes"][0]


def test_the_sparse_optimizer_of_the_program_computes_what_ours_does(trained):
    """Its own updates of a variable's rows are those of the optimizer by address, with the same decay of weights."""
    own = trained("ascend_criteo_dlrm", LARGE)
    address = trained("ascend_criteo_dlrm", EXPANSION)
    np.testing.assert_allclose(own["losses"], address["losses"], rtol=1e-5)
    assert own["sizes"] == address["sizes"]
