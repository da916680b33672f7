"""Graph modification in Estimators and monitored sessions."""
import pytest
import tensorflow as tf

from mx_rec.core.embedding import sparse_lookup
from mx_rec.core.feature_process import EvictHook
from mx_rec.graph import GraphModifierHook
from mx_rec.optimizers import adagrad
from mx_rec.util.initialize import get_initializer
from tests.tf import programs, tensor_programs
from tests.tf.estimators import Losses, event_files

SOURCE = programs.batches(8)


def optimizer():
    return adagrad.create_hash_optimizer(0.3)


def input_fn(structure="dataset", one_shot=False):
    data = programs.dataset(SOURCE).map(lambda batch: (batch, batch["label"])).prefetch(4)
    if structure == "dataset":
        return data
    if one_shot:
        return tf.compat.v1.data.make_one_shot_iterator(data).get_next()
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator.get_next()


def model_fn(features, labels, mode, losses=None):
    training = mode == tf.compat.v1.estimator.ModeKeys.TRAIN
    tables = [programs.table("user"), programs.table("item")]
    rows = [sparse_lookup(tables[place], features[key] + 0, modify_graph=True, is_train=training)
            for place, key in zip((0, 0, 1), "abc")]
    if mode == tf.compat.v1.estimator.ModeKeys.PREDICT:
        return tf.compat.v1.estimator.EstimatorSpec(mode, predictions={
            "rows": rows[2], "c": features["c"], "label": features["label"]})
    loss = programs.model(rows, labels)
    if not training:
        metrics = {"labels": tf.compat.v1.metrics.mean(labels)}
        return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    losses.loss = loss
    variables = [table.variable for table in tables] + tf.compat.v1.trainable_variables("dense")
    gradients = tf.compat.v1.train.GradientDescentOptimizer(0.1).compute_gradients(
        loss, variables, gate_gradients=tf.compat.v1.train.Optimizer.GATE_GRAPH)
    update = tf.group(optimizer().apply_gradients(gradients[:2]),
                      tf.compat.v1.train.GradientDescentOptimizer(0.1).apply_gradients(gradients[2:]))
    with tf.control_dependencies([update]):
        step = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
    return tf.compat.v1.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


def estimator(folder, losses=None):
    config = tf.compat.v1.estimator.RunConfig(
        str(folder), save_summary_steps=None, save_checkpoints_steps=1000, log_step_count_steps=None,
        session_config=tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD), tf_random_seed=1)
    return tf.compat.v1.estimator.Estimator(
        lambda features, labels, mode: model_fn(features, labels, mode, losses), config=config)


def train(folder, hooks, **inputs):
    losses = Losses()
    with event_files(), programs.ascpipe():
        estimator(folder, losses).train(lambda: input_fn(**inputs), [*hooks, losses])
    return losses.values


@pytest.fixture(scope="module")
def expected():
    """Losses in FeatureSpec mode."""
    return programs.our_losses(SOURCE, optimizer)


@pytest.mark.parametrize("inputs", [
    {}, {"structure": "tensors"}, {"structure": "tensors", "one_shot": True}],
    ids=["dataset", "initializable", "one_shot"])
def test_an_estimator_trains_as_a_session_does_with_feature_specs(inputs, expected, tmp_path):
    assert train(tmp_path, [GraphModifierHook()], **inputs) == expected


def test_an_estimator_evaluates_and_predicts_after_it_was_trained(tmp_path):
    with event_files():
        train(tmp_path, [GraphModifierHook()])
        with programs.ascpipe():
            metrics = estimator(tmp_path).evaluate(input_fn, hooks=[GraphModifierHook()])
        with programs.ascpipe():
            predictions = list(estimator(tmp_path).predict(input_fn, hooks=[GraphModifierHook()]))
    assert metrics["global_step"] == len(SOURCE)
    labels = [label for batch in SOURCE for label in batch["label"].tolist()]
    assert metrics["labels"] == pytest.approx(sum(labels) / len(labels))
    # Tensors of the batch that are fetched as they are belong to the batch that was looked up.
    assert [prediction["label"] for prediction in predictions] == pytest.approx(labels)
    assert [prediction["c"] for prediction in predictions] == [key for batch in SOURCE for key in batch["c"].tolist()]
    rows = {}
    for prediction in predictions:
        row = prediction["rows"].tolist()
        assert rows.setdefault(prediction["c"], row) == row
        assert any(row)


@pytest.mark.parametrize("call", ["train", "evaluate", "predict"])
def test_an_estimator_without_the_hook_is_a_runtime_error(call, tmp_path):
    with event_files(), programs.ascpipe():
        if call == "train":
            with pytest.raises(RuntimeError, match="GraphModifierHook"):
                estimator(tmp_path, Losses()).train(input_fn)
            return
    with event_files():
        train(tmp_path, [GraphModifierHook()])
    with event_files(), programs.ascpipe(), pytest.raises(RuntimeError, match="GraphModifierHook"):
        list(getattr(estimator(tmp_path), call)(input_fn) or ())


def test_a_monitored_session_needs_no_initializer_of_the_program(expected):
    with programs.ascpipe():
        program = tensor_programs.Program(SOURCE, optimizer, modify=lambda: None)
        tf.compat.v1.train.get_or_create_global_step()
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
        with tf.compat.v1.train.MonitoredTrainingSession(config=config, hooks=[GraphModifierHook()]) as run:
            assert [run.run([program.loss, program.train])[0] for _ in SOURCE] == expected
            assert get_initializer(True) is program.iterator.initializer


def test_with_modify_graph_false_the_hook_starts_the_pipeline_of_feature_specs(expected):
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, start=False)
        tf.compat.v1.train.get_or_create_global_step()
        scaffold = tf.compat.v1.train.Scaffold(local_init_op=program.iterator.initializer)
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
        with tf.compat.v1.train.MonitoredTrainingSession(
                config=config, scaffold=scaffold, hooks=[GraphModifierHook(modify_graph=False)]) as run:
            assert [run.run([program.loss, program.train])[0] for _ in SOURCE] == expected


def test_the_hook_writes_graphs_where_it_is_told_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with programs.ascpipe():
        tensor_programs.Program(SOURCE, optimizer, modify=lambda: None)
        GraphModifierHook(dump_graph=True).begin()
    assert (tmp_path / "export_graph" / "new_graph.pbtxt").exists()


@pytest.mark.parametrize("kwargs", [{"dump_graph": 1}, {"modify_graph": None}])
def test_the_hook_has_rules_for_its_arguments(kwargs):
    with pytest.raises(ValueError):
        GraphModifierHook(**kwargs)


@pytest.mark.parametrize("first", [True, False], ids=["before_it", "after_it"])
def test_an_evict_hook_may_stand(first):
    with programs.ascpipe():
        table = programs.table("user")
        data = tf.data.Dataset.range(1, 7).map(lambda number: {"ids": [number], "time": number * 10})
        batch = tf.compat.v1.data.make_initializable_iterator(data).get_next()
        tf.compat.v1.add_to_collection("ASCEND_TIMESTAMP", batch["time"])
        rows = sparse_lookup(table, batch["ids"], modify_graph=True,
                             access_and_evict_config={"access_threshold": 1, "eviction_threshold": 15})
        step = tf.compat.v1.train.get_or_create_global_step()
        train = optimizer().minimize(tf.reduce_sum(rows), step, [table.variable])
        evict = EvictHook(evict_enable=True, evict_step_interval=3)
        hooks = [evict, GraphModifierHook()] if first else [GraphModifierHook(), evict]
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
        sizes = []
        with tf.compat.v1.train.MonitoredTrainingSession(config=config, hooks=hooks) as run:
            for _ in range(6):
                run.run(train)
                sizes.append(table.size())
        assert sizes == [1, 2, 2, 3, 4, 2]
