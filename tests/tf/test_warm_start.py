"""Warm start: a training begins with dense variables and tables of checkpoints of others."""
import collections
import functools
import pathlib
import re
import shutil
import tempfile

import pytest
import tensorflow as tf

import ascpipe.tf
from ascpipe.checkpoint.errors import CheckpointMismatchError, DamagedCheckpointError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.tf import patches
from ascpipe.tf.checkpoints import warm_starting
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.estimators import Losses

STEPS = 12  #: of the training whose checkpoint others begin with
COLD = {"user": {}, "item": {}}
SOURCE = programs.batches(2 * STEPS, keys=40)
TIERS = {"device": {"device_vocabulary_size": 100}, "host": {"device_vocabulary_size": 24, "host_vocabulary_size": 100},
         "disk": on_disk(24, 100), "expansion": {}}
RATE = 0.1

pytestmark = pytest.mark.timeout_s(120)
Settings = tf.compat.v1.estimator.WarmStartSettings
Saved = collections.namedtuple("Saved", "rows slots counts weights")


def ascpipe_of(tier):
    return programs.ascpipe(use_dynamic_expansion=tier == "expansion")


def normal(seed=11):
    return tf.compat.v1.random_normal_initializer(stddev=0.3, seed=seed)


def train(folder, steps=1, warm_start_from=None, tier="device", optimizer="adagrad", skip=0, seed=11, dim=programs.DIM):
    """Losses of an Estimator, whose first checkpoint is that of before its first step."""
    losses, specs = Losses(), programs.specs()

    def input_fn():
        return programs.dataset(SOURCE).skip(skip).map(get_asc_insert_func(specs)).map(
            lambda batch: (batch, batch["label"])).prefetch(4)

    def model_fn(features, labels, mode):
        tables = [create_table(tf.int64, dim, name, normal(seed), **TIERS[tier]) for name in ("user", "item")]
        looked_up = [sparse_lookup(tables[place], spec, batch=features) for place, spec in zip((0, 0, 1), specs)]
        losses.loss = programs.model([rows[..., :programs.DIM] for rows in looked_up], labels)
        rows, handles = programs.trained(*tables)
        update = programs.apply(losses.loss, rows, programs.optimizer(optimizer, RATE), handles=handles)
        with tf.control_dependencies([update]):
            step = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        start_asc_pipeline()
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=losses.loss, train_op=step)

    config = tf.compat.v1.estimator.RunConfig(
        tf_random_seed=1, save_checkpoints_steps=1000, save_summary_steps=None,
        session_config=tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD))
    with ascpipe_of(tier):
        try:
            tf.compat.v1.estimator.Estimator(model_fn, str(folder), config, warm_start_from=warm_start_from).train(
                input_fn, hooks=[losses], steps=steps)
        finally:
            tf.compat.v1.summary.FileWriterCache.clear()  # TensorFlow keeps its event files open
    return losses.values


def prefix(folder, step=0):
    return str(folder / "model.ckpt-{}".format(step))


def saved(path):
    """What a checkpoint holds: of each table, by key."""
    rows, slots, counts = {}, {}, {}
    with open_checkpoint(path) as checkpoint:
        for name in checkpoint.tables:
            rows[name], slots[name], counts[name] = {}, {}, {}
            for block in checkpoint.blocks(name):
                keys = block.keys.tolist()
                rows[name].update(zip(keys, block.rows[:, :programs.DIM].tolist()))
                slots[name].update(zip(keys, block.rows[:, programs.DIM:].tolist()))
                counts[name].update(zip(keys, block.counts.tolist()))
    return Saved(rows, slots, counts, tf.train.load_variable(path, "dense/weights").tolist())


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Folder of a training whose newest checkpoint is that after ``STEPS`` steps."""
    folder = tmp_path_factory.mktemp("one")
    train(folder, STEPS)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The same of another one, with other rows everywhere."""
    folder = tmp_path_factory.mktemp("other")
    train(folder, 3, skip=2, seed=5)
    return folder


@functools.lru_cache(maxsize=None)
def uninterrupted(*, expansion):
    """Losses of all steps; the same with every device size, so that one run is enough."""
    with tempfile.TemporaryDirectory() as folder:
        return train(pathlib.Path(folder), STEPS + 6, tier="expansion" if expansion else "device")


def test_tables_that_were_saved_without_a_key_begin_empty(one, tmp_path):
    assert train(tmp_path / "begun", 3, prefix(one)) == train(tmp_path / "without", 3)
    assert saved(prefix(tmp_path / "begun")).rows == saved(prefix(one)).rows == COLD


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_a_path_begins_every_table_and_training_goes_on_from_there_bit_by_bit(tier, tmp_path):
    first = train(tmp_path / "first", STEPS, tier=tier)
    rest = train(tmp_path / "rest", 6, str(tmp_path / "first"), tier, skip=STEPS)
    assert first + rest == uninterrupted(expansion=tier == "expansion")
    assert saved(prefix(tmp_path / "rest")) == saved(prefix(tmp_path / "first", STEPS))


@pytest.mark.parametrize("tier", ["expansion", pytest.param("host", marks=pytest.mark.long)])
def test_a_table_of_one_tier_begins_one_of_another(tier, one, tmp_path):
    train(tmp_path, 1, prefix(one, STEPS), tier)
    assert saved(prefix(tmp_path)) == saved(prefix(one, STEPS))


@pytest.mark.parametrize("wanted, tables, dense", [
    ("user", ["user"], False), ("(item|dense)", ["item"], True), (["user", "dense/weights"], ["user"], True)])
def test_what_is_not_named_begins_as_without(wanted, tables, dense, one, tmp_path):
    train(tmp_path, 1, Settings(prefix(one, STEPS), wanted))
    begun, before = saved(prefix(tmp_path)), saved(prefix(one, STEPS))
    assert begun.rows == {**COLD, **{name: before.rows[name] for name in tables}}
    assert (begun.weights == before.weights) == dense


def test_a_table_begins_as_one_of_another_name(one, tmp_path):
    train(tmp_path, 1, Settings(prefix(one, STEPS), ["user", "item"], var_name_to_prev_var_name={
        "user": "item", "item": "user"}))
    begun, before = saved(prefix(tmp_path)), saved(prefix(one, STEPS))
    assert (begun.rows["user"], begun.rows["item"]) == (before.rows["item"], before.rows["user"])
    assert begun.counts["user"] == before.counts["item"] and begun.slots["user"] == before.slots["item"]


def test_a_later_path_overrides_an_earlier_one(one, other, tmp_path):
    train(tmp_path, 1, Settings([str(one), str(other)], ["(user|item|dense)", ["user"]],
                                var_name_to_prev_var_name=[None, {"user": "item"}]))
    begun = saved(prefix(tmp_path))
    assert begun.rows["user"] == saved(prefix(other, 3)).rows["item"]
    assert begun.rows["item"] == saved(prefix(one, STEPS)).rows["item"]
    assert begun.weights == saved(prefix(one, STEPS)).weights


def test_training_that_goes_on_from_its_own_checkpoint_is_not_warm_started(one, other, tmp_path):
    train(tmp_path / "first", 2, str(one))
    shutil.copytree(str(tmp_path / "first"), str(tmp_path / "second"))
    assert train(tmp_path / "first", 3, str(other), skip=2) == train(tmp_path / "second", 3, skip=2)


def test_slots_that_the_checkpoint_does_not_have_begin_as_for_new_keys(one, tmp_path):
    train(tmp_path, 1, str(one), optimizer="lazy_adam")
    begun = saved(prefix(tmp_path))
    assert begun.rows == saved(prefix(one, STEPS)).rows
    assert {value for slots in begun.slots["user"].values() for value in slots} == {0.0}


def without(folder, name):
    shutil.rmtree(str(folder / name))


def damaged(folder, name):
    path = folder / name / "item" / "key" / "slice.data"
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("settings, error, match", [
    (lambda folder: str(folder / "model.ckpt-7"), FileNotFoundError, "model.ckpt-7"),
    (lambda folder: without(folder, "sparse-model.ckpt-3") or str(folder), FileNotFoundError, "sparse-model.ckpt-3"),
    (lambda folder: damaged(folder, "sparse-model.ckpt-3") or str(folder), DamagedCheckpointError, "item/key"),
    (lambda folder: Settings(str(folder), ["user"], var_name_to_prev_var_name={"user": "users"}),
     CheckpointMismatchError, "'users' is not in the checkpoint; it has item, user.*var_name_to_prev_var_name"),
    (lambda folder: Settings(str(folder), ["user"], var_name_to_prev_var_name={"item": "user"}), ValueError, "item")])
def test_an_estimator_raises_what_is_wrong_with_a_warm_start(settings, error, match, other, tmp_path):
    shutil.copytree(str(other), str(tmp_path / "copy"))
    with pytest.raises(error, match=match):
        train(tmp_path / "model", 1, settings(tmp_path / "copy"))


def test_rows_of_another_length_are_an_error(one, tmp_path):
    with pytest.raises(CheckpointMismatchError, match="rows of 4 floats in the checkpoint and of 5"):
        train(tmp_path, 1, Settings(str(one), ["user"]), dim=5)


def test_a_checkpoint_of_rec_sdk_begins_tables_where_the_environment_allows_it(other, tmp_path, monkeypatch):
    shutil.copytree(str(other), str(tmp_path / "copy"))
    for name in ("MANIFEST.json", "PAIR.json", "ASCPIPE"):
        (tmp_path / "copy" / "sparse-model.ckpt-3" / name).unlink()
    monkeypatch.setenv("ASCPIPE_ALLOW_UNVERIFIED", "1")
    train(tmp_path / "model", 1, str(tmp_path / "copy"))
    assert saved(prefix(tmp_path / "model")).rows == saved(prefix(other, 3)).rows


def test_a_prediction_without_a_checkpoint_of_its_own_is_warm_started_too(one, tmp_path):
    spec = FeatureSpec("c", table_name="item", index_key="c")

    def input_fn():
        return programs.dataset(SOURCE[:3]).map(get_asc_insert_func([spec], is_training=False)).prefetch(4)

    def model_fn(features, mode):
        table = create_table(tf.int64, programs.DIM, "item", normal(5), **TIERS["device"])
        rows = sparse_lookup(table, spec, batch=features, is_train=False)
        start_asc_pipeline()
        return tf.compat.v1.estimator.EstimatorSpec(mode, predictions={"key": features["c"], "row": rows})

    with ascpipe_of("device"):
        estimator = tf.compat.v1.estimator.Estimator(model_fn, str(tmp_path), warm_start_from=str(one))
        found = list(estimator.predict(input_fn))
    before = saved(prefix(one, STEPS)).rows["item"]
    assert len(found) == sum(len(batch["c"]) for batch in SOURCE[:3])
    for prediction in found:
        assert prediction["row"].tolist() == before[int(prediction["key"])]


# Programs that call warm_start themselves.

MORE_KEYS = programs.batches(6, seed=3, keys=80)


def test_a_session_begins_so_and_new_keys_begin_as_the_program_says(other):
    first, before = programs.first_rows(MORE_KEYS), saved(prefix(other, 3)).rows
    with ascpipe_of("device"):
        program = programs.Program(MORE_KEYS, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.0), rows=200)
        load = ascpipe.tf.warm_start(str(other), "(user|item)$")
        with programs.session() as run:
            program.initialise(run)
            assert load(run) == {name: len(before[name]) for name in before}
            known = set()
            for batch in MORE_KEYS:
                rows = run.run([program.rows, program.train])[0]
                for name, key, value in zip(("user", "user", "item"), "abc", rows):
                    for each, row in zip(batch[key].reshape(-1).tolist(), value.reshape(-1, programs.DIM)):
                        known.add(each in before[name])
                        assert row.tolist() == before[name].get(each, first[name][each].tolist())
            assert known == {True, False}


def test_keys_with_a_row_are_admitted_and_others_as_the_program_says(other, monkeypatch):
    monkeypatch.setattr(programs, "specs", lambda: [
        FeatureSpec(name, table_name=table, index_key=name, access_threshold=1000)
        for name, table in (("a", "user"), ("b", "user"), ("c", "item"))])
    before = saved(prefix(other, 3)).rows
    with ascpipe_of("device"):
        program = programs.Program(MORE_KEYS, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.0), rows=200)
        load = ascpipe.tf.warm_start(str(other), ["user"])
        with programs.session() as run:
            program.initialise(run)
            load(run)
            rows = run.run(program.rows)
    for key, row in zip(MORE_KEYS[0]["b"].tolist(), rows[1].tolist()):
        assert row == before["user"].get(key, [0.0] * programs.DIM)
    assert not rows[2].any()


def test_a_scaffold_begins_so(other, tmp_path):
    with ascpipe_of("device"):
        program = programs.Program(MORE_KEYS, lambda: tf.compat.v1.train.GradientDescentOptimizer(0.0), rows=200)
        tf.compat.v1.train.get_or_create_global_step()
        load = ascpipe.tf.warm_start(str(other))
        scaffold = tf.compat.v1.train.Scaffold(
            init_fn=lambda _, session: load(session), local_init_op=program.iterator.initializer)
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
        with tf.compat.v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=scaffold, config=config, save_summaries_steps=None,
                save_summaries_secs=None, log_step_count_steps=None) as run:
            run.run(program.rows)
        tf.compat.v1.summary.FileWriterCache.clear()
    assert saved(prefix(tmp_path)) == saved(prefix(other, 3))._replace(slots=saved(prefix(tmp_path)).slots)


def test_tables_begin_after_the_pipeline_was_started(other):
    with ascpipe_of("device"):
        create_table(tf.int64, programs.DIM, "user", normal(), device_vocabulary_size=9)
        load = ascpipe.tf.warm_start(str(other), ["user"])
        with programs.session() as run, pytest.raises(RuntimeError, match="start_asc_pipeline"):
            load(run)


# What is loaded, and what is asked of TensorFlow.

@pytest.fixture
def asked(other):
    """In a graph of three tables and a dense variable: what ``warm_start`` loads, and asks of TensorFlow."""
    dense = []

    def ask(wanted, paths=None, **kwargs):
        return ascpipe.tf.warm_start(prefix(other, 3) if paths is None else paths, wanted, **kwargs)(None), dense

    with ascpipe_of("device"), pytest.MonkeyPatch.context() as patch:  # undone first: the end of a program gives _plain
        patch.setattr(patches.WARM_START, "_plain", lambda *settings: dense.append(settings))
        patch.setattr(warm_starting, "_load", lambda state, sources, allow_unverified, session: sources)
        for name, is_save in (("user", True), ("user_history", True), ("scratch", False)):
            create_table(tf.int64, programs.DIM, name, normal(), device_vocabulary_size=9, is_save=is_save)
        tf.compat.v1.get_variable("tower", [1], use_resource=False)
        yield ask


def names(dense):
    return [variable.op.name for variable in dense]


@pytest.mark.parametrize("wanted, tables", [
    (".*", ["user", "user_history"]), ("user$", ["user"]), ("history", []), (None, [])])
def test_tables_are_those_whose_names_begin_as_the_regular_expression_says(wanted, tables, asked, other):
    loaded, dense = asked(wanted)
    assert loaded == {name: (prefix(other, 3), name, True) for name in tables}
    assert dense == [(prefix(other, 3), wanted, None, {})]


@pytest.mark.parametrize("wanted, tables, variables", [
    (["user.*", "tower"], [], ["tower"]), (["scratch", ".*"], ["scratch"], ["tower"]),
    (["user", "t", "tower"], ["user"], ["tower"])])
def test_a_list_has_names_of_tables_and_regular_expressions_for_variables(wanted, tables, variables, asked):
    loaded, dense = asked(wanted)
    assert list(loaded) == tables
    assert names(dense[0][1]) == variables


def test_tensorflow_is_asked_for_nothing_where_only_tables_are_named(asked):
    assert asked(["user"], var_name_to_prev_var_name={"user": "people"})[1] == []


def test_a_list_of_variables_names_the_tables_whose_variables_they_are(asked):
    loaded, dense = asked(tf.compat.v1.global_variables())
    assert list(loaded) == ["user", "user_history", "scratch"]
    assert names(dense[0][1]) == ["tower"]


def test_a_name_that_is_nobodys_is_a_warning(asked, caplog):
    asked(["user", "towr"])
    assert "'towr' is neither a table nor the prefix of a variable's name" in caplog.text
    asked("tower")
    assert "initializes no table; this graph has user, user_history, scratch" in caplog.text


def test_each_path_has_settings_of_its_own(asked, one, other):
    loaded, dense = asked([".*", ["user", "tower"]], [str(one), str(other)],
                          var_name_to_prev_var_name=[{"tower": "old"}, {"user": "people"}])
    assert loaded == {"user": (prefix(other, 3), "people", True),
                      "user_history": (prefix(one, STEPS), "user_history", True)}
    assert [(settings[0], settings[3]) for settings in dense] == [
        (prefix(one, STEPS), {"tower": "old"}), (prefix(other, 3), {})]


@pytest.mark.parametrize("wanted, paths, kwargs, match", [
    ([".*"], ["a", "b"], {}, "vars_to_warm_start must be a list of 2"),
    (".*", ["a", "b"], {}, "vars_to_warm_start must be a list of 2, one item for each path.*not '.*'"),
    ([".*"] * 2, ["a", "b"], {"var_name_to_prev_var_name": [{}]}, "var_name_to_prev_var_name must be a list of 2"),
    ([".*"] * 2, ["a", "b"], {"var_name_to_prev_var_name": {"x": "y"}}, "must be a list of 2, .* not {'x': 'y'}"),
    ([".*"] * 2, ["a", "b"], {"var_name_to_vocab_info": [None] * 3}, "var_name_to_vocab_info must be a list of 2"),
    (".*", "a", {"var_name_to_prev_var_name": [{}]}, "var_name_to_prev_var_name is a list, .* is a single path, 'a'"),
    ([], [], {}, "length is less than 1")])
def test_lists_of_different_lengths_are_an_error(wanted, paths, kwargs, match, asked):
    with pytest.raises(ValueError, match=match):
        asked(wanted, paths, **kwargs)


@pytest.mark.parametrize("path, missing", [("", "checkpoint"), ("none", "none"), ("model.ckpt-7", "model.ckpt-7")])
def test_a_missing_checkpoint_is_an_error_that_names_it(path, missing, asked, one, tmp_path):
    path, match = str(tmp_path / path), re.escape(str(tmp_path / missing)) + " "
    with pytest.raises(FileNotFoundError, match=match):
        asked(".*", path)
    with pytest.raises(FileNotFoundError, match=match):
        asked([".*", ".*"], [str(one), path.encode()])


def test_a_graph_without_tables_is_tensorflows(tmp_path):
    def model_fn(features, labels, mode):
        weight = tf.compat.v1.get_variable("weight", [], use_resource=False)
        loss = tf.square(weight - 3.0) + 0.0 * tf.reduce_sum(features)
        train = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf.compat.v1.train.get_global_step())
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    def weight(folder, warm_start_from=None):
        tf.compat.v1.estimator.Estimator(model_fn, str(folder), warm_start_from=warm_start_from).train(
            lambda: tf.data.Dataset.from_tensors(([0.0], [0.0])), steps=1)
        tf.compat.v1.summary.FileWriterCache.clear()
        return [tf.train.load_variable(prefix(folder, step), "weight") for step in (0, 1)]

    _, trained = weight(tmp_path / "first")
    assert weight(tmp_path / "second", str(tmp_path / "first"))[0] == trained
