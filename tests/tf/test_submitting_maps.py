"""A map that does little more than submit ids runs on the thread that asks for the batch, op by op; others do not."""
import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer
from tests.tf import programs

AS_IT_WAS, IN_ORDER = (True, b""), (False, b"SINGLE_THREADED_EXECUTOR")
IDS = {"c": np.arange(24).reshape(4, 6)}


def ways_of_maps(session, initializer):
    """Of each map of a dataset, whether it runs on TensorFlow's pool, and which executor is asked for."""
    metadata = tf.compat.v1.RunMetadata()
    session.run(initializer, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    maps = [node.attr for graph in metadata.partition_graphs for node in graph.node if node.op == "MapDataset"]
    return [(attr["use_inter_op_parallelism"].b, attr["f"].func.attr["_executor"].s) for attr in maps]


def squares(batch):
    return {"c": tf.cast(tf.square(tf.cast(batch["c"], tf.float32)), tf.int64)}


@pytest.mark.parametrize("stages, expected", [
    (lambda data, insert: data.map(insert), [IN_ORDER]),
    (lambda data, insert: data.map(squares).map(insert), [AS_IT_WAS, IN_ORDER]),
    (lambda data, insert: data.map(lambda batch: insert(squares(batch))), [AS_IT_WAS]),
], ids=["inserts", "two maps", "computes and inserts"])
def test_a_map_that_only_submits_runs_on_its_callers_thread(stages, expected):
    with programs.ascpipe():
        item, spec = programs.table("item"), programs.specs()[2]
        data = tf.data.Dataset.from_tensor_slices(IDS)
        data = stages(data, get_asc_insert_func([spec], is_training=True)).prefetch(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        rows = sparse_lookup(item, spec, batch=iterator.get_next(), is_train=True)
        train = programs.optimizer("adagrad", .1).minimize(tf.reduce_sum(rows), var_list=[item.variable])
        start_asc_pipeline()
        with programs.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            assert ways_of_maps(session, iterator.initializer) == expected
            for _ in range(len(IDS["c"])):
                assert session.run([rows, train])[0].shape == (6, programs.DIM)


def test_so_does_the_map_of_graph_modification():
    with programs.ascpipe():
        item = programs.table("item")
        iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(IDS))
        rows = sparse_lookup(item, iterator.get_next()["c"], is_train=True, modify_graph=True)
        train = programs.optimizer("adagrad", .1).minimize(tf.reduce_sum(rows), var_list=[item.variable])
        modify_graph_and_start_emb_cache()
        with programs.session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            assert ways_of_maps(session, get_initializer(True)) == [IN_ORDER]
            for _ in range(len(IDS["c"])):
                assert session.run([rows, train])[0].shape == (6, programs.DIM)
