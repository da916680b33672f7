"""Every kind of batch and iterator trains: dicts elsewhere, here single tensors, tuples and pairs."""
import numpy as np
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.optimizers import lazy_adam
from tests.tf import programs

estimators = tf.compat.v1.estimator


def train_to_the_end(lookups, table):
    """Train until the data ends; how many steps there were, and the table's size."""
    loss = tf.add_n([tf.reduce_sum(tf.square(rows)) for rows in lookups])
    step = lazy_adam.create_hash_optimizer(0.1).minimize(loss, var_list=[table.variable])
    start_asc_pipeline()
    steps = 0
    with programs.session() as run:
        run.run(tf.compat.v1.global_variables_initializer())
        while True:
            try:
                assert np.isfinite(run.run([loss, step])[0])
            except tf.errors.OutOfRangeError:
                return steps, table.size()
            steps += 1


def one_shot(*components, insert):
    data = tf.data.Dataset.from_tensor_slices(components[0] if len(components) == 1 else components)
    return tf.compat.v1.data.make_one_shot_iterator(data.batch(2).map(insert).prefetch(2)).get_next()


def test_a_single_tensor_of_a_one_shot_iterator_with_static_shapes_and_no_batch_argument():
    with programs.ascpipe(use_dynamic=False):
        table = programs.table("user")
        spec = FeatureSpec("ids", table_name="user", index_key=0)
        one_shot(np.arange(40).reshape(10, 4), insert=get_asc_insert_func(spec))
        assert train_to_the_end([sparse_lookup(table, spec, 100)], table) == (5, 40)


def test_a_tuple_with_two_features_of_a_table_by_place():
    with programs.ascpipe():
        table = programs.table("user")
        specs = [FeatureSpec("x", table_name="user", index_key=0), FeatureSpec("y", table_name="user", index_key=1)]
        ids = np.arange(10, dtype=np.int32)
        batch = one_shot(ids, ids.astype(np.int64) + 5, np.ones(10), insert=get_asc_insert_func(specs))
        assert train_to_the_end([sparse_lookup(table, spec, batch=batch) for spec in specs], table) == (5, 15)


def test_a_pair_of_features_and_label_of_which_the_features_are_given_on():
    with programs.ascpipe():
        table = programs.table("user")
        spec = FeatureSpec("user", index_key="ids")
        features, _ = one_shot({"ids": np.arange(6)}, np.ones(6), insert=get_asc_insert_func(spec))
        assert train_to_the_end([sparse_lookup(table, spec, batch=features)], table) == (3, 6)


def test_a_graph_that_only_evaluates_trains_nothing():
    source = programs.batches(4)
    with programs.ascpipe():
        table = programs.table("user")
        spec = FeatureSpec("a", table_name="user", index_key="a")
        iterator, batch = programs.insert(source, [spec], training=False)
        rows = sparse_lookup(table, spec, is_train=False, batch=batch, serving_default_value=2.0)
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            for expected in source:
                np.testing.assert_array_equal(run.run(rows), np.full(expected["a"].shape + (programs.DIM,), 2.0))
        assert table.size() == 0


def test_a_program_in_the_form_of_an_estimator_trains_to_the_end_and_saves(tmp_path):
    source = programs.batches(12)
    specs = programs.specs()

    def input_fn():
        return programs.dataset(source).map(get_asc_insert_func(specs)).map(
            lambda batch: (batch, batch["label"])).prefetch(4)

    def model_fn(features, labels, mode):
        tables = [programs.table("user"), programs.table("item")]
        rows = [sparse_lookup(tables[place], spec, batch=features) for place, spec in zip((0, 0, 1), specs)]
        loss = programs.model(rows, labels)
        update = programs.apply(loss, [table.variable for table in tables], lazy_adam.create_hash_optimizer(0.05))
        with tf.control_dependencies([update]):
            train = tf.compat.v1.assign_add(tf.compat.v1.train.get_global_step(), 1)
        start_asc_pipeline()
        return estimators.EstimatorSpec(mode, loss=loss, train_op=train)

    with programs.ascpipe():
        estimator = estimators.Estimator(model_fn, str(tmp_path), estimators.RunConfig(tf_random_seed=1))
        estimator.train(input_fn)
        assert estimator.get_variable_value("global_step") == len(source)
    tf.compat.v1.summary.FileWriterCache.clear()  # TensorFlow keeps its event files open
