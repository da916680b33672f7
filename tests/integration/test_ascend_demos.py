"""The session demo and the Estimator demo in the order of calls that real programs have, with all of their switches.

Losses and table sizes are the same bits whichever tier, mode and shape; only what changes the model (lookups that are
repeated, admission, padding keys) changes them.
"""
import glob

import pytest

from tests.support.ascend_programs import demo, plain, served
from tests.support.covering import pairs_of, pairwise

pytestmark = [pytest.mark.timeout_s(300), pytest.mark.usefixtures("forked_programs")]

STEPS, INTERVAL, EVAL_STEPS = 24, 8, 3
SIZES = {
    "batch_size": 25, "train_batch_num": STEPS, "eval_batch_num": 4, "max_steps": STEPS, "train_steps": INTERVAL,
    "eval_steps": EVAL_STEPS, "save_steps": INTERVAL, "change_threshold_at": 12, "user_vocab_size": 500,
    "user_range": 500, "item_range": 200, "user_send_cnt": 200, "item_send_cnt": 200, "mlp": [16, 8], "keep_prob": 1.0,
    "access_threshold": 2, "new_threshold": 5, "sleep_s": 0.1, "threads": 1}

FEATURES, MODIFIED = {}, {"USE_MODIFY_GRAPH": 1}
STATIC, DYNAMIC, EXPANSION = {}, {"USE_DYNAMIC": 1}, {"USE_DYNAMIC": 1, "USE_DYNAMIC_EXPANSION": 1}
HBM, DDR, SSD = {"CACHE_MODE": "HBM"}, {"CACHE_MODE": "DDR"}, {"CACHE_MODE": "SSD"}
#: What changes the model, so that losses are others.
PLAIN, SINGLE, TIMES, PADDED = {}, {"USE_MULTI_LOOKUP": 0}, {"USE_TIMESTAMP": 1}, {"USE_PADDING_KEYS": 1}
COUNTED = {"USE_TIMESTAMP": 1, "MULTI_LOOKUP_TIMES": 4}
#: Each tier, mode, shape and switch occurs once at least.
TRAINED = {
    "plain": [
        {**HBM, **FEATURES, **DYNAMIC, **PLAIN, "MXREC_LOG_LEVEL": "Debug", "PRECISION_CHECK": 1, "USE_DP": 1},
        {**DDR, **MODIFIED, **EXPANSION, **PLAIN, "USE_TUPLE_DATA_FORMAT": 1, "USE_ONE_SHOT": 1}],
    "single": [
        {**DDR, **FEATURES, **STATIC, **SINGLE, "USE_DETERMINISTIC": 1}],
    "timestamps": [
        {**HBM, **MODIFIED, **STATIC, **TIMES}],
    "four_lookups_are_counted": [
        {**SSD, **FEATURES, **STATIC, **COUNTED},
        {**HBM, **MODIFIED, **DYNAMIC, **COUNTED}],
    "padding_keys": [
        {**DDR, **MODIFIED, **DYNAMIC, **PADDED}]}
#: With these, each tier occurs with each mode and each shape, and each group has both tiers or both modes.
FURTHER = {
    "plain": [
        {**HBM, **FEATURES, **STATIC, **PLAIN, "PRECISION_CHECK": 1, "USE_DP": 1},
        {**DDR, **FEATURES, **STATIC, **PLAIN, "USE_DETERMINISTIC": 1},
        {**HBM, **MODIFIED, **EXPANSION, **PLAIN, "USE_ONE_SHOT": 1},
        {**SSD, **MODIFIED, **DYNAMIC, **PLAIN}],
    "single": [
        {**DDR, **FEATURES, **EXPANSION, **SINGLE},
        {**DDR, **MODIFIED, **STATIC, **SINGLE, "USE_DP": 1}],
    "timestamps": [
        {**HBM, **FEATURES, **EXPANSION, **TIMES, "USE_ONE_SHOT": 1},
        {**HBM, **MODIFIED, **STATIC, **TIMES, "USE_TUPLE_DATA_FORMAT": 1, "USE_DETERMINISTIC": 1}],
    "four_lookups_are_counted": [
        {**DDR, **FEATURES, **DYNAMIC, **COUNTED}],
    "padding_keys": [
        {**DDR, **FEATURES, **STATIC, **PADDED},
        {**DDR, **MODIFIED, **DYNAMIC, **PADDED, "PRECISION_CHECK": 1}]}
ROWS = [switches for group in TRAINED.values() for switches in group]
LONG_ROWS = [switches for group in FURTHER.values() for switches in group]


def long(cases):
    """Mark cases as long."""
    return [pytest.param(case, marks=pytest.mark.long) for case in cases]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, _module_leaves_nothing_behind):
    """One for all programs, one after the other. It ends before the gate, also where the last test does not use it."""
    with served("demos", tmp_path_factory.mktemp("programs")) as name:
        yield name


def sizes_of(switches):
    """With ``USE_DETERMINISTIC`` the session's own configuration has to see to the order of sums."""
    return {**SIZES, "threads": 0 if "USE_DETERMINISTIC" in switches else 1}


@pytest.fixture(scope="module")
def trained(daemon, tmp_path_factory):
    """Trains with some switches, once; its folder, and what it told."""
    done = {}

    def train(switches):
        key = str(sorted(switches.items()))
        if key not in done:
            folder = tmp_path_factory.mktemp("demo")
            done[key] = folder, demo("ascend_demo", daemon, folder, sizes_of(switches), USE_MODE="train", **switches)
        return done[key]

    return train


def named(switches):
    return "-".join(value if name == "CACHE_MODE" else "{}{}".format(name.replace("USE_", "").lower(), value)
                    for name, value in switches.items())


@pytest.mark.parametrize("switches", ROWS + long(LONG_ROWS), ids=named)
def test_the_session_demo_trains_evaluates_and_saves(switches, trained):
    folder, told = trained(switches)
    assert (len(told["losses"]), len(told["sizes"]), len(told["evaluations"])) == (STEPS, STEPS, STEPS // INTERVAL)
    assert len(told["evaluations"][0]) == EVAL_STEPS
    for step in range(INTERVAL, STEPS + 1, INTERVAL):
        assert glob.glob(str(folder / "saved-model/model-{}.index".format(step)))
        assert (folder / "saved-model/sparse-model-{}/user_table".format(step)).is_dir()
    written = glob.glob(str(folder / "precision_check/*/*.npy"))
    assert bool(written) == ("PRECISION_CHECK" in switches)
    if "USE_MODIFY_GRAPH" in switches:
        assert (folder / "export_graph/new_graph.pbtxt").is_file()


def assert_same(trained, group):
    _, first = trained(group[0])
    for switches in group[1:]:
        _, told = trained(switches)
        assert same(told, first), named(switches)


@pytest.mark.parametrize("group", [name for name, rows in TRAINED.items() if len(rows) > 1])
def test_losses_and_sizes_are_the_same_in_two_runs_of(group, trained):
    assert_same(trained, TRAINED[group])


@pytest.mark.long
@pytest.mark.parametrize("group", TRAINED)
def test_losses_and_sizes_are_the_same_in_every_tier_mode_and_shape_of(group, trained):
    assert_same(trained, TRAINED[group] + FURTHER[group])


def same(one, other):
    """Whether two runs computed the same; one-shot iterators have no second evaluation."""
    evaluations = [[found for found in told["evaluations"] if len(found) == EVAL_STEPS] for told in (one, other)]
    count = min(map(len, evaluations))
    return count > 0 and plain([one["losses"], one["sizes"], evaluations[0][:count]]) == plain(
        [other["losses"], other["sizes"], evaluations[1][:count]])


@pytest.mark.long
@pytest.mark.timeout_s(600)
def test_with_the_deterministic_switch_two_runs_and_all_modes_have_the_same_losses(daemon, tmp_path):
    sizes = {**SIZES, "threads": 0, "train_batch_num": 200, "max_steps": 200, "train_steps": 100, "save_steps": 100,
             "mlp": [1024, 512, 256, 128]}
    modes = [{**HBM, **FEATURES, **DYNAMIC}, {**HBM, **FEATURES, **DYNAMIC}, {**DDR, **FEATURES, **STATIC},
             {**HBM, **MODIFIED, **EXPANSION}, {**DDR, **MODIFIED, **DYNAMIC}, {**SSD, **MODIFIED, **STATIC}]
    losses = [demo("ascend_demo", daemon, tmp_path / str(number), sizes, USE_MODE="train", USE_DETERMINISTIC=1,
                   MULTI_LOOKUP_TIMES=4, **mode)["losses"] for number, mode in enumerate(modes)]
    assert len(losses[0]) == 200
    for mode, found in zip(modes, losses):
        assert plain(found) == plain(losses[0]), named(mode)


def test_what_changes_the_model_changes_the_losses(trained):
    assert len({plain(trained(group[0])[1]["losses"]) for group in TRAINED.values()}) == len(TRAINED)


def test_a_table_of_as_many_rows_as_there_are_keys_ends_exactly_full(trained):
    _, told = trained(TRAINED["plain"][0])
    assert (told["sizes"][-1], told["capacities"]) == ([500, 200], [500, 500])


def test_repeated_lookups_of_a_feature_count_its_ids_each_time(trained):
    _, four = trained(TRAINED["four_lookups_are_counted"][0])
    _, two = trained(TRAINED["timestamps"][0])
    # With five or three lookups a key is admitted at once, up to the step that raises the threshold to five.
    assert four["sizes"][0][0] == two["sizes"][0][0] > 0
    assert two["sizes"][0][1] < 200
    assert four["sizes"][-1][0] > two["sizes"][-1][0]


@pytest.mark.parametrize("rows", [ROWS[1:2], pytest.param(ROWS + LONG_ROWS, marks=pytest.mark.long)],
                         ids=["one", "all"])
def test_predicting_with_the_last_checkpoint_gives_the_last_evaluation_of(rows, trained, daemon):
    for switches in rows:
        folder, told = trained(switches)
        # A one-shot iterator has one evaluation only: the last one is the one of a run with another iterator.
        (group,) = [TRAINED[name] + FURTHER[name] for name in TRAINED if switches in TRAINED[name] + FURTHER[name]]
        *_, last = trained(next(one for one in group if "USE_ONE_SHOT" not in one))[1]["evaluations"]
        found = demo("ascend_demo", daemon, folder, sizes_of(switches), USE_MODE="predict", **switches)
        assert plain(found["evaluations"]) == plain([last]), named(switches)


def assert_goes_on_alike(group, trained, daemon):
    found = []
    for switches in group:
        folder, told = trained(switches)
        found.append(demo("ascend_demo", daemon, folder, sizes_of(switches), USE_MODE="load_and_train", **switches))
        assert (folder / "saved-model/sparse-model-{}".format(2 * STEPS)).is_dir()
        assert plain(found[-1]["losses"]) != plain(told["losses"])
        assert same(found[-1], found[0]), named(switches)


def test_training_goes_on_alike_on_disk_and_on_the_device(trained, daemon):
    assert_goes_on_alike(TRAINED["four_lookups_are_counted"], trained, daemon)


@pytest.mark.long
@pytest.mark.parametrize("group", TRAINED)
def test_loading_and_training_goes_on_alike_in_every_tier_mode_and_shape_of(group, trained, daemon):
    assert_goes_on_alike(TRAINED[group] + FURTHER[group], trained, daemon)


# ---- the Estimator demo -----------------------------------------------------------------------------------

E_STEPS, E_INTERVAL = 12, 6
FLAGS = ["--max_data_generate_steps", "14", "--max_steps", str(E_STEPS), "--train_steps", str(E_INTERVAL),
         "--eval_steps", str(EVAL_STEPS), "--save_checkpoints_steps", str(E_INTERVAL)]


@pytest.fixture
def estimator(daemon, tmp_path):
    """Runs the Estimator demo in a folder."""
    def run(folder, mode, sizes=(), **switches):
        return demo("ascend_demo_estimator", daemon, tmp_path / folder, {**sizes_of(switches), **dict(sizes)}, *FLAGS,
                    RUN_MODE=mode, **switches)

    return run


def test_the_estimator_demo_trains_evaluates_predicts_and_exports_alike_in_both_modes(estimator, tmp_path):
    features, modified = {**HBM, **DYNAMIC}, {**DDR, **STATIC, **MODIFIED, "USE_TUPLE_DATA_FORMAT": 1, "USE_DP": 1}
    one = estimator("features", "train_and_evaluate", **features)
    other = estimator("modified", "train_and_evaluate", **modified)
    assert (len(one["train"]), len(one["eval"]), one["tables"]) == (E_STEPS, EVAL_STEPS * 2, 3)
    assert (plain(one["train"]), plain(one["eval"]), one["sizes"]) == (
        plain(other["train"]), plain(other["eval"]), other["sizes"])
    for step in (0, E_INTERVAL, E_STEPS):
        assert (tmp_path / "features/_rank/model.ckpt-{}.index".format(step)).is_file()
        assert (tmp_path / "features/_rank/sparse-model.ckpt-{}/item_table".format(step)).is_dir()
    predicted = estimator("features", "predict", USE_EXPORT_SAVED_MODEL=1, **features)
    assert len(predicted["predictions"]) == SIZES["eval_batch_num"]
    assert plain(predicted["predictions"]) == plain(
        estimator("modified", "predict", **modified)["predictions"])
    assert glob.glob(str(tmp_path / "features/model_path/*/saved_model.pb"))


def test_the_estimator_demo_slices_keys_that_are_text_in_between_and_keys_of_no_iterator(estimator, tmp_path):
    assert len(estimator("hbm", "train", ENABLE_SLICER_TEST=1, **HBM, **DYNAMIC, **MODIFIED)["train"]) == E_STEPS
    for report in ("lookup_slicing", "orphan_slicing"):
        assert (tmp_path / "hbm" / report / "slicing_summary.csv").is_file()


@pytest.mark.long
def test_the_estimator_demo_slices_keys_alike_in_both_tiers(estimator):
    hbm = estimator("hbm", "train", ENABLE_SLICER_TEST=1, **HBM, **DYNAMIC, **MODIFIED)
    ddr = estimator("ddr", "train", ENABLE_SLICER_TEST=1, USE_DETERMINISTIC=1, **DDR, **STATIC, **MODIFIED)
    assert (plain(ddr["train"]), ddr["sizes"]) == (plain(hbm["train"]), hbm["sizes"])


@pytest.mark.long  # the session demo has admission and eviction in both modes
def test_the_estimator_demo_admits_and_evicts_alike_in_both_modes(estimator):
    switches = {**HBM, **EXPANSION, "USE_TIMESTAMP": 1}
    one = estimator("features", "train", USE_ONE_SHOT=1, **switches)
    other = estimator("modified", "train", USE_EXPORT_SAVED_MODEL=1, **switches, **MODIFIED)
    assert (plain(one["train"]), one["sizes"]) == (plain(other["train"]), other["sizes"])
    assert 0 < one["sizes"][0][1] < 200  # of the items' ids, those that occurred twice


@pytest.mark.long
def test_the_estimator_demo_drops_values_out_in_training(estimator):
    sizes = {"keep_prob": 0.8}
    told = estimator("dropout", "train", sizes, **HBM, **MODIFIED, **DYNAMIC, USE_MULTI_LOOKUP=0)
    assert len(told["train"]) == E_STEPS


# ---- every pair of switches ----------------------------------------------------------------------------------

FACTORS = {
    "CACHE_MODE": ["HBM", "DDR", "SSD"], "USE_MODIFY_GRAPH": [0, 1], "shape": ["static", "dynamic", "expansion"],
    "then": ["load_and_train", "predict"], "USE_MULTI_LOOKUP": [0, 1], "MULTI_LOOKUP_TIMES": [2, 4],
    **{name: [0, 1] for name in ("USE_TIMESTAMP", "USE_ONE_SHOT", "USE_TUPLE_DATA_FORMAT", "USE_DP", "USE_PADDING_KEYS",
                                 "PRECISION_CHECK", "USE_DETERMINISTIC")}}
SHAPES = {"static": STATIC, "dynamic": DYNAMIC, "expansion": EXPANSION}


def allowed(row):
    """What the programs themselves allow: tuples with graph modification, padding keys without data parallel tables."""
    return not ((row.get("USE_TUPLE_DATA_FORMAT") and not row.get("USE_MODIFY_GRAPH", 1))
                or (row.get("USE_DP") and row.get("USE_PADDING_KEYS"))
                or (row.get("USE_ONE_SHOT") and row.get("PRECISION_CHECK")))  # such an iterator cannot begin anew


def model_of(row):
    """What decides the losses."""
    return (row["USE_TIMESTAMP"], row["USE_PADDING_KEYS"], row["MULTI_LOOKUP_TIMES"] * row["USE_MULTI_LOOKUP"])


def test_the_rows_of_the_sweep_have_every_pair_of_switches():
    rows = pairwise(FACTORS, allowed)
    found = {pair for row in rows for pair in pairs_of(row)}
    pairs = [((one, value), (other, another)) for one in FACTORS for other in FACTORS if one < other
             for value in FACTORS[one] for another in FACTORS[other]]
    assert [pair for pair in pairs if pair not in found] == [pair for pair in pairs if not allowed(dict(pair))]
    assert all(map(allowed, rows)) and len(rows) < 25


@pytest.mark.long
@pytest.mark.timeout_s(1800)
def test_losses_are_the_same_with_any_two_switches_of_the_session_demo(trained, daemon):
    models, wrong = {}, []
    for row in pairwise(FACTORS, allowed):
        switches = {name: value for name, value in row.items() if name not in ("shape", "then") and value}
        switches.update(SHAPES[row["shape"]], USE_MULTI_LOOKUP=row["USE_MULTI_LOOKUP"])
        folder, told = trained(switches)
        if model_of(row) not in models:
            repeats = {name: row[name] for name in ("USE_TIMESTAMP", "USE_PADDING_KEYS", "USE_MULTI_LOOKUP",
                                                    "MULTI_LOOKUP_TIMES")}
            models[model_of(row)] = trained({**HBM, **FEATURES, **DYNAMIC, **repeats})[1]
        if not same(told, models[model_of(row)]):
            wrong.append(named(switches))
        found = demo("ascend_demo", daemon, folder, sizes_of(switches), USE_MODE=row["then"], **switches)
        if row["then"] == "predict" and not row["USE_ONE_SHOT"] and (
                plain(found["evaluations"]) != plain(told["evaluations"][-1:])):
            wrong.append("predict of " + named(switches))
    assert not wrong
