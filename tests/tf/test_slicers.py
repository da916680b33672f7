"""The hooks that say what else is moved into the dataset."""
import csv

import pytest
import tensorflow as tf

from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph import GraphModifierHook, LookupSubgraphSlicerHook, OrphanLookupKeySlicerHook
from mx_rec.optimizers import gradient_descent
from tests.tf import programs, tensor_programs

SOURCE = programs.batches(4)


@pytest.fixture(autouse=True)
def graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with programs.ascpipe():
        tf.compat.v1.train.get_or_create_global_step()
        yield tf.compat.v1.get_default_graph()


def train(ids, hooks, fetched, table=None):
    """What each step fetched, and how many keys have a row."""
    table = table or programs.table("user", 1000)
    rows = sparse_lookup(table, ids, modify_graph=True)
    update = gradient_descent.create_hash_optimizer(0.5).minimize(tf.reduce_sum(rows), var_list=[table.variable])
    config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
    with tf.compat.v1.train.MonitoredTrainingSession(config=config, hooks=[*hooks, GraphModifierHook()]) as run:
        return [run.run([fetched, update])[0].tolist() for _ in SOURCE], table.size()


def functions(graph):
    """Names of the ops in all functions of a graph."""
    return [node.name for function in graph.as_graph_def().library.function for node in function.node_def]


def summary(folder):
    with open("{}/slicing_summary.csv".format(folder), newline="") as report:
        return list(csv.DictReader(report))


def test_ops_of_the_named_types_are_computed_in_the_dataset_alone(graph, tmp_path):
    _, batch = tensor_programs.take(SOURCE)
    words = tf.strings.as_string(batch["a"], name="words")
    ids = tf.strings.to_hash_bucket_fast(words, 97)
    length = tf.strings.length(words) + 0
    lengths, _ = train(ids, [LookupSubgraphSlicerHook(["AsString"])], length)
    assert lengths == [[[len(str(key)) for key in row] for row in each["a"].tolist()] for each in SOURCE]
    assert length.op.inputs[0].op.inputs[0].op.type == "IteratorGetNext"
    assert "sliced/words" in functions(graph)
    (line,) = summary("lookup_slicing")
    assert (line["lookup"], line["table"], line["op"], line["type"]) == ("sparse_lookup_1", "user", "words", "AsString")
    assert {path.name for path in (tmp_path / "lookup_slicing").iterdir()} == {
        "slicing_summary.csv", "unsliced_graph.pbtxt", "sliced_graph.pbtxt"}


def test_ids_that_come_from_no_iterator_are_trained_with_its_batches(tmp_path):
    _, batch = tensor_programs.take(SOURCE)
    labels, size = train(tf.constant([5, 6, 6], tf.int64), [OrphanLookupKeySlicerHook()], batch["label"])
    assert labels == [each["label"].tolist() for each in SOURCE]
    assert size == 2
    (line,) = summary("orphan_slicing")
    assert line["type"] == "Const"
    assert (tmp_path / "orphan_slicing" / "sliced_graph.pbtxt").exists()


def test_the_hook_of_older_versions_pushes_ids_of_no_iterator_too():
    from mx_rec.graph.acg_push_ops import ACGPushOpsToDatasetHook
    _, batch = tensor_programs.take(SOURCE)
    _, size = train(tf.constant([5, 6, 6], tf.int64), [ACGPushOpsToDatasetHook(dump_graph=True)], batch["label"])
    assert size == 2
    with pytest.raises(ValueError, match="dump_graph"):
        ACGPushOpsToDatasetHook(["AsString"])


def test_orphans_go_to_the_iterator_of_their_table():
    table = programs.table("user", 1000)
    tensor_programs.take(programs.batches(1))  # an iterator that is not initialised
    _, batch = tensor_programs.take(SOURCE)
    sparse_lookup(table, tf.constant([1000], tf.int64), modify_graph=True, is_grad=False)
    _, size = train(batch["a"], [OrphanLookupKeySlicerHook()], batch["label"], table)
    assert size == len({key for each in SOURCE for key in each["a"].reshape(-1).tolist()} | {1000})


def test_an_orphan_needs_an_iterator():
    with pytest.raises(ValueError, match="no iterator"):
        train(tf.constant([5], tf.int64), [OrphanLookupKeySlicerHook()], tf.constant(0))


def with_a_control_input(batch):
    with tf.control_dependencies([batch["b"] + 1]):
        return tf.math.abs(batch["a"])


def named_like_a_loss(batch):
    return tf.math.abs(batch["a"], name="my_loss")


@pytest.mark.parametrize("make, words", [
    (with_a_control_input, "control inputs: 'add'"), (named_like_a_loss, "a loss")])
def test_ops_that_are_not_moved_are_refused(make, words):
    _, batch = tensor_programs.take(SOURCE)
    with pytest.raises(ValueError, match=words):
        train(make(batch), [LookupSubgraphSlicerHook(["Abs"])], batch["a"])


@pytest.mark.parametrize("types", [[], "Abs", None, [1], [""]])
def test_types_are_a_list_of_names(types):
    with pytest.raises(ValueError):
        LookupSubgraphSlicerHook(types)


def test_a_slicer_after_the_modifier_is_a_runtime_error():
    _, batch = tensor_programs.take(SOURCE)
    with pytest.raises(RuntimeError, match="before GraphModifierHook"):
        train(batch["a"], [GraphModifierHook(), OrphanLookupKeySlicerHook()], batch["a"])
