"""Admission, eviction, default rows and shared ids in modified graphs: what they do with FeatureSpecs."""
import collections

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import lookup_ops

from mx_rec.constants.constants import ASCEND_TIMESTAMP
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers import gradient_descent
from mx_rec.util.initialize import get_initializer, trigger_evict
from tests.tf import one_table, programs
from tests.tf.one_table import batch


class TensorTable(one_table.OneTable):
    """``OneTable`` with tensors; ``spec`` is the ``access_and_evict_config``."""

    def _look_up(self, batches, training, stages, spec, **lookup):
        shapes = {key: [None] * np.ndim(value) for key, value in batches[0].items()}
        data = stages(programs.dataset_of(batches, shapes))
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        taken = iterator.get_next()
        if "time" in taken and training:
            tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, taken["time"] + 0)
        rows = sparse_lookup(self.table, taken["ids"], modify_graph=True, is_train=training,
                             access_and_evict_config=spec, **lookup)
        if training:
            do_merge_lookup()
        return iterator, taken, rows


def trained(batches, asked, evict_after=None, **kwargs):
    """As ``one_table.trained``; an eviction after so many steps."""
    with programs.ascpipe():
        program = TensorTable(batches, asked, **kwargs)
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            program.start(run)
            steps = []
            for number, _ in enumerate(batches):
                steps.append(program.take())
                if number + 1 == evict_after:
                    trigger_evict(run)
            return steps, program.read(), program.table.size()


def test_keys_are_admitted_as_with_feature_specs():
    batches = [batch(1, 2, 2, 3), batch(3, 1), batch(4)]
    for spec in ({"access_threshold": 2}, {"access_threshold": 4, "faae_coefficient": 2}, {"access_threshold": 0}):
        assert trained(batches, [1, 2, 3, 4], spec=spec) == one_table.trained(batches, [1, 2, 3, 4], spec=spec)


def test_keys_that_are_too_old_by_the_times_in_the_collection_are_evicted():
    batches = [batch(1, 2, time=100), batch(2, time=120), batch(3, time=130)]
    _, rows, size = trained(batches, [1, 2, 3], evict_after=3, spec={"eviction_threshold": 30})
    assert size == 2
    assert set(rows) == {1, 2, 3}
    assert rows[1] == 0.0  # what a key without a row gives


def test_what_a_key_without_a_row_gives_is_the_serving_default_value():
    batches = [batch(1, 2, 2)]
    arguments = {"spec": {"access_threshold": 2}, "serving_default": [5.0, 6.0]}
    assert trained(batches, [1, 2, 9], **arguments) == one_table.trained(batches, [1, 2, 9], **arguments)


def test_each_lookup_of_a_tensor_counts_its_ids_as_each_feature_spec_does():
    def sizes(modified, threshold):
        with programs.ascpipe():
            table = programs.table("item")
            config = {"access_threshold": threshold}
            data = tf.data.Dataset.from_tensors({"item": tf.constant([1, 2, 2, 3], tf.int64)}).repeat()
            specs = [FeatureSpec("item", **config) for _ in range(4)]
            if not modified:
                data = data.map(get_asc_insert_func(specs))
            iterator = tf.compat.v1.data.make_initializable_iterator(data)
            batch = iterator.get_next()
            rows = [sparse_lookup(table, batch["item"], modify_graph=True, access_and_evict_config=config) if modified
                    else sparse_lookup(table, spec, batch=batch) for spec in specs]
            optimizer = gradient_descent.create_hash_optimizer(0.5)
            train = optimizer.minimize(sum(map(tf.reduce_sum, rows)), var_list=[table.variable])
            (modify_graph_and_start_emb_cache if modified else start_asc_pipeline)()
            with programs.session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                found = []
                for _ in range(3):
                    run.run(train)
                    found.append(table.size())
                return found

    assert [sizes(True, threshold) for threshold in (4, 5, 9)] == [[3, 3, 3], [1, 3, 3], [0, 1, 3]]
    assert [sizes(False, threshold) for threshold in (4, 5, 9)] == [[3, 3, 3], [1, 3, 3], [0, 1, 3]]


def test_lookups_of_the_same_tensor_give_the_same_rows():
    with programs.ascpipe():
        table = programs.table("user")
        iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(
            tf.constant([1, 2, 2, 3], tf.int64)).repeat())
        ids = iterator.get_next()
        first, second = [sparse_lookup(table, ids, modify_graph=True, is_grad=is_grad,
                                       access_and_evict_config={"access_threshold": 2}) for is_grad in (True, False)]
        loss = tf.reduce_sum(first) + tf.reduce_sum(second)
        train = gradient_descent.create_hash_optimizer(0.5).minimize(loss, var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            run.run([get_initializer(True), tf.compat.v1.global_variables_initializer()])
            rows = run.run([first, second, train])[:2]
            assert rows[0].tolist() == rows[1].tolist()
            assert table.size() == 3


def hashed(batch):
    words = tf.strings.as_string(batch["a"])
    return tf.strings.to_hash_bucket_fast(words, 97)


def called(batch):
    return tf.function(lambda ids: tf.where(ids > 20, ids * 2, ids), autograph=False)(batch["a"])


def in_a_loop(batch):
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), [0, batch["a"]])[1]


def in_a_conditional(batch):
    return tf.cond(batch["b"][0] > 10, lambda: batch["a"] + 100, lambda: batch["a"])


def asserted(batch):
    with tf.control_dependencies([tf.debugging.assert_greater_equal(batch["a"], tf.zeros([], tf.int64))]):
        return tf.identity(batch["a"])


def small_integers(batch):
    return tf.cast(batch["a"], tf.uint8)


def from_a_vocabulary(batch):
    """Words with numbers, and buckets for those without; a second table for some of the numbers."""
    words = tf.strings.as_string(batch["a"])
    known = tf.constant([str(key) for key in range(0, programs.KEYS, 2)])
    numbers = lookup_ops.index_table_from_tensor(known, num_oov_buckets=5).lookup(words)
    renamed = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(
        tf.constant([0, 1], tf.int64), tf.constant([900, 901], tf.int64)), -1)
    return tf.where(numbers < 2, renamed.lookup(numbers), numbers)


MAKERS = [hashed, called, in_a_loop, in_a_conditional, asserted, small_integers, from_a_vocabulary]


def test_ids_may_be_made_by_any_ops_that_run_in_a_dataset():
    source = programs.batches(5)
    with programs.ascpipe():
        iterator = tf.compat.v1.data.make_initializable_iterator(programs.dataset(source))
        taken = iterator.get_next()
        tables = [programs.table(make.__name__, 1000) for make in MAKERS]
        ids = [make(taken) for make in MAKERS]
        rows = [sparse_lookup(table, each, modify_graph=True) for table, each in zip(tables, ids)]
        train = gradient_descent.create_hash_optimizer(0.5).minimize(
            tf.add_n([tf.reduce_sum(each) for each in rows]), var_list=[table.variable for table in tables])
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            run.run([get_initializer(True), tf.compat.v1.global_variables_initializer()])
            run.run(tf.compat.v1.tables_initializer())
            steps = [run.run([ids, rows, train])[:2] for _ in source]
            sizes = [table.size() for table in tables]
    for place, make in enumerate(MAKERS):
        # A row begins as its key says, and loses 0.5 for each time that it was trained.
        first, seen = {}, collections.Counter()
        for made, looked_up in steps:
            keys = made[place].reshape(-1).tolist()
            for key, row in zip(keys, looked_up[place].reshape(-1, programs.DIM)):
                np.testing.assert_allclose(row, first.setdefault(key, row) - 0.5 * seen[key], atol=1e-4,
                                           err_msg=make.__name__)
            seen.update(keys)
        assert sizes[place] == len(seen), make.__name__


def test_a_batch_may_hold_sparse_tensors_and_strings():
    with programs.ascpipe():
        table = programs.table("user")
        data = tf.data.Dataset.from_tensors({
            "words": tf.constant(["a", "b"]),
            "tags": tf.SparseTensor([[0, 0], [1, 1]], tf.constant([7, 8], tf.int64), [2, 2])}).repeat(3)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        taken = iterator.get_next()
        rows = sparse_lookup(table, tf.sparse.to_dense(taken["tags"]), modify_graph=True)
        train = gradient_descent.create_hash_optimizer(0.5).minimize(tf.reduce_sum(rows), var_list=[table.variable])
        modify_graph_and_start_emb_cache()
        with programs.session() as run:
            run.run([get_initializer(True), tf.compat.v1.global_variables_initializer()])
            assert run.run([taken["words"], train])[0].tolist() == [b"a", b"b"]
            assert table.size() == 3
