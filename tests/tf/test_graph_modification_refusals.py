"""What graph modification refuses, by name, before anything is changed; nothing runs."""
import pytest
import tensorflow as tf
from tensorflow.python.ops import lookup_ops

from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.table_lookup import MAX_LOOKUPS
from mx_rec.constants.constants import ASCEND_TIMESTAMP
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func
from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.tf import programs, tensor_programs

SOURCE = programs.batches(1)


@pytest.fixture(autouse=True)
def graph():
    with programs.ascpipe():
        yield tf.compat.v1.get_default_graph()


def modify(*ids, training=True, table=None):
    """Look up ids in one table, and modify the graph."""
    table = table or programs.table("user")
    for each in ids:
        sparse_lookup(table, each, is_train=training, modify_graph=True)
    if training:
        do_merge_lookup()
    modify_graph_and_start_emb_cache()


def taken(**kwargs):
    return tensor_programs.take(SOURCE, **kwargs)[1]


def from_a_variable(ids):
    variable = tf.compat.v1.get_variable("shift", [], tf.int64, use_resource=False)
    return ids + variable, [r"'shift' \(VariableV2\): it reads or changes a variable"]


def from_a_resource_variable(ids):
    variable = tf.compat.v1.get_variable("shift", [], tf.int64, use_resource=True)
    return ids + variable, [r"\(ReadVariableOp\): it uses the variable 'shift'"]


def from_a_placeholder(ids):
    return ids + tf.compat.v1.placeholder(tf.int64, [], "shift"), [
        r"because an op that computes it cannot run", r"'shift' \(Placeholder\): it is fed",
        r"Fed values .* tf\.data\.Dataset"]


def from_a_placeholder_with_default(ids):
    shift = tf.compat.v1.placeholder_with_default(tf.zeros([], tf.int64), [], "shift")
    return ids + shift, [r"'shift' \(PlaceholderWithDefault\): it is fed"]


def from_random_numbers(ids):
    shift = tf.random.uniform([], 0, 9, tf.int64, name="shift")
    return ids + shift, [r"'shift' \(RandomUniformInt\): it is stateful"]


def from_a_lookup_table_that_changes(ids):
    table = lookup_ops.MutableHashTable(tf.int64, tf.int64, 0, name="words")
    return table.lookup(ids), [r"'words_lookup_table_find/LookupTableFindV2' \(LookupTableFindV2\): it uses the "
                               r"resource 'words' \(MutableHashTableV2\), which may change"]


def from_a_function_of_python(ids):
    return tf.compat.v1.py_func(lambda array: array + 1, [ids], tf.int64, name="plus"), [
        r"'plus' \(PyFunc\): it is stateful"]


def from_the_global_step(ids):
    return ids + tf.compat.v1.train.get_or_create_global_step(), [
        r"'global_step' \(\w+\): (it reads or changes a variable|it uses)"]


def from_two_of_them(ids):
    variable = tf.compat.v1.get_variable("shift", [], tf.int64, use_resource=False)
    return ids + variable + tf.compat.v1.placeholder(tf.int64, [], "scale"), [
        r"because 2 ops that compute it cannot run",
        r"'scale' \(Placeholder\): it is fed", r"'shift' \(VariableV2\): it reads or changes a variable"]


def from_rows_of_a_table(ids):
    rows = sparse_lookup(programs.table("item"), ids, modify_graph=True)
    return tf.cast(rows, tf.int64), [r"'item' \(VariableV2\): it reads or changes a variable", r"AscProvisionalPlan"]


def under_a_control_dependency(ids):
    variable = tf.compat.v1.get_variable("count", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.compat.v1.assign_add(variable, 1)]):
        return tf.identity(ids), [r"\(AssignAdd\): it reads or changes a variable"]


@pytest.mark.parametrize("make", [
    from_a_variable, from_a_resource_variable, from_a_placeholder, from_a_placeholder_with_default,
    from_random_numbers, from_a_lookup_table_that_changes, from_a_function_of_python, from_the_global_step,
    from_two_of_them, from_rows_of_a_table, under_a_control_dependency])
def test_ids_that_cannot_be_made_in_a_dataset_are_refused_op_by_op(make):
    ids, words = make(taken()["c"])
    with pytest.raises(ValueError, match="sparse_lookup_1.*'user'.*cannot be moved") as refused:
        modify(ids)
    for word in words:
        refused.match(word)


def test_a_lookup_table_without_a_shared_name_is_not_found_by_a_one_shot_iterator():
    table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64, name="words")
    none = tf.constant(0, tf.int64)
    with pytest.raises(ValueError, match="'OneShotIterator' is a one-shot iterator.*'words'.*make_initializable"):
        modify(tf.raw_ops.LookupTableFindV2(
            table_handle=table, keys=taken(one_shot=True)["c"], default_value=none))


def test_ids_of_no_iterator_are_refused():
    with pytest.raises(ValueError, match="do not depend on an iterator.*OrphanLookupKeySlicerHook"):
        modify(tf.constant([1, 2]))


def test_ids_of_several_iterators_are_refused():
    with pytest.raises(ValueError, match=r"several get_next\(\): 'IteratorGetNext', 'IteratorGetNext_1'"):
        modify(taken()["c"] + taken()["c"])


def test_one_table_with_batches_of_two_iterators_is_refused():
    with pytest.raises(ValueError, match=r"one get_next\(\)"):
        modify(taken()["a"], taken()["a"])


def test_lookups_from_two_get_next_of_one_iterator_are_refused():
    iterator, first = tensor_programs.take(SOURCE)
    second = iterator.get_next()
    sparse_lookup(programs.table("item"), first["a"], modify_graph=True)
    with pytest.raises(ValueError, match=r"one get_next\(\)"):
        modify(second["a"])


def test_an_iterator_of_another_kind_is_refused():
    data = programs.dataset(SOURCE)
    iterator = tf.compat.v1.data.Iterator.from_string_handle(
        tf.compat.v1.placeholder(tf.string, []), tf.compat.v1.data.get_output_types(data),
        tf.compat.v1.data.get_output_shapes(data))
    with pytest.raises(ValueError, match="IteratorFromStringHandleV2.*use one iterator and one lookup for training"):
        modify(iterator.get_next()["a"])


def test_ids_that_are_no_numbers_or_of_another_graph_are_refused():
    table = programs.table("user")
    with pytest.raises(ValueError, match="dtype string.*to_hash_bucket_fast"):
        sparse_lookup(table, tf.as_string(taken()["a"]), modify_graph=True)
    with tf.Graph().as_default():
        ids = taken()["a"]
    with pytest.raises(ValueError, match="not in the graph of table"):
        sparse_lookup(table, ids, modify_graph=True)


def test_a_feature_spec_with_modify_graph_is_refused():
    with pytest.raises(ValueError, match="tensor of ids"):
        sparse_lookup(programs.table("user"), FeatureSpec("user"), modify_graph=True)


def test_a_table_is_looked_up_with_feature_specs_or_with_tensors():
    table = programs.table("user")
    spec = FeatureSpec("user", index_key="a")
    _, batch = programs.insert(SOURCE, [spec])
    sparse_lookup(table, spec, batch=batch)
    with pytest.raises(ValueError, match="E267: .*either FeatureSpecs or tensors for all training lookups"):
        sparse_lookup(table, batch["a"], modify_graph=True)


def test_a_dataset_that_was_mapped_with_an_insert_function_may_be_modified_for_another_table(graph):
    user, item = programs.table("user"), programs.table("item")
    spec = FeatureSpec("user", index_key="a")
    iterator = tf.compat.v1.data.make_initializable_iterator(
        programs.dataset(SOURCE).map(get_asc_insert_func(spec)).prefetch(2))
    batch = iterator.get_next()
    rows = [sparse_lookup(user, spec, batch=batch), sparse_lookup(item, batch["c"], modify_graph=True)]
    loss = programs.model([rows[0], rows[1], rows[1]], batch["label"])
    programs.OPTIMIZERS["gradient_descent"](0.1).minimize(loss, var_list=[user.variable, item.variable])
    modify_graph_and_start_emb_cache()
    graph.finalize()
    assert len([op for op in graph.get_operations() if op.type == "AscNextPlan"]) == 2


def test_the_129th_lookup_of_a_table_is_a_runtime_error():
    table, ids = programs.table("user"), taken()["a"]
    for _ in range(MAX_LOOKUPS):
        sparse_lookup(table, ids, modify_graph=True)
    with pytest.raises(RuntimeError, match="more than 128 times"):
        sparse_lookup(table, ids, modify_graph=True)


def test_a_graph_without_lookups_of_tensors_and_a_finalized_one_are_runtime_errors(graph):
    with pytest.raises(RuntimeError, match="start_asc_pipeline"):
        modify_graph_and_start_emb_cache()
    graph.finalize()
    with pytest.raises(RuntimeError, match="GraphModifierHook"):
        modify_graph_and_start_emb_cache()
    for kwargs in ({"full_graph": 1}, {"dump_graph": 1}):
        with pytest.raises(ValueError):
            modify_graph_and_start_emb_cache(**kwargs)


def test_lookups_after_the_modification_are_runtime_errors():
    table, batch = programs.table("user"), taken()
    rows = sparse_lookup(table, batch["a"], modify_graph=True)
    programs.OPTIMIZERS["gradient_descent"](0.1).minimize(tf.reduce_sum(rows), var_list=[table.variable])
    modify_graph_and_start_emb_cache()
    for training in (True, False):
        with pytest.raises(RuntimeError, match="E263: .*pipeline has already started"):
            sparse_lookup(table, batch["a"], is_train=training, modify_graph=True)


def test_static_shapes_need_a_send_count_and_ids_with_a_dimension():
    terminate_config_initializer()
    init(use_dynamic=False)
    table, ids = programs.table("user"), taken()["a"]
    with pytest.raises(ValueError, match="send_count"):
        sparse_lookup(table, ids, modify_graph=True)
    with pytest.raises(ValueError, match="at least one dimension"):
        sparse_lookup(table, tf.reduce_sum(ids), 10, modify_graph=True)


class TestTimestamps:
    @pytest.mark.parametrize("age", [0, 10])
    def test_an_eviction_threshold_needs_the_time_of_training_batches(self, age):
        table, batch = programs.table("user"), taken()
        sparse_lookup(table, batch["a"], modify_graph=True, access_and_evict_config={"eviction_threshold": age})
        with pytest.raises(ValueError, match=ASCEND_TIMESTAMP):
            modify(table=table)

    def test_two_times_of_one_iterator_are_an_environment_error(self):
        batch = taken()
        for key in "bc":
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, tf.reduce_max(batch[key]))
        with pytest.raises(EnvironmentError, match="several timestamps"):
            modify(batch["a"])

    def test_a_time_is_a_scalar(self):
        batch = taken()
        tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["b"])
        with pytest.raises(ValueError, match="scalar"):
            modify(batch["a"])

    def test_thresholds_of_a_table_must_agree(self):
        table, batch = programs.table("user"), taken()
        sparse_lookup(table, batch["a"], modify_graph=True, access_and_evict_config={"access_threshold": 2})
        for config in ({"access_threshold": 3}, {"access_threshold": 2, "eviction_threshold": 5}):
            with pytest.raises(ValueError, match="sparse_lookup 'sparse_lookup_1' and sparse_lookup 'other' of table "
                                                 "'user' have different thresholds: access_threshold=2, .* and "
                                                 "access_threshold="):
                sparse_lookup(table, batch["b"], modify_graph=True, access_and_evict_config=config, name="other")
        sparse_lookup(table, batch["b"], modify_graph=True, access_and_evict_config={"access_threshold": 2})

    def test_a_lookup_without_thresholds_leaves_those_of_the_others(self):
        table, batch = programs.table("user"), taken()
        for config in (None, {"access_threshold": 2}, None):
            sparse_lookup(table, batch["a"], modify_graph=True, access_and_evict_config=config)
        assert GraphState.of(tf.compat.v1.get_default_graph()).thresholds.of("user").access == 2

    def test_lookups_of_the_other_channel_need_not_repeat_thresholds(self):
        table, batch = programs.table("user"), taken()
        sparse_lookup(table, batch["a"], modify_graph=True, access_and_evict_config={"access_threshold": 2})
        sparse_lookup(table, batch["a"], modify_graph=True, is_train=False)
