"""A program as Rec SDK's documents write it, with the one switch between FeatureSpecs and graph modification."""
import os

import pytest
import tensorflow as tf

from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers.lazy_adam import create_hash_optimizer
from mx_rec.util.initialize import get_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.tf import programs

TRAIN, EVALUATION = programs.batches(12), programs.batches(3, seed=4)
EVALUATE_EACH, SAVE_EACH = 4, 6


def make_batch_and_iterator(source, feature_spec_list, is_training, modify_graph):
    dataset = programs.dataset(source)
    if not modify_graph:
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training))
    dataset = dataset.prefetch(100)
    iterator = dataset.make_initializable_iterator()
    return iterator.get_next(), iterator


def build_graph(tables, source, is_train, modify_graph, config):
    names = {"a": "user_table", "b": "user_table", "c": "item_table"}
    specs = [FeatureSpec(key, table_name=name, index_key=key, access_threshold=config[name]["access_threshold"])
             for key, name in names.items()]
    batch, iterator = make_batch_and_iterator(source, specs, is_train, modify_graph)
    features = [batch[key] for key in names] if modify_graph else specs
    rows = [sparse_lookup(tables[name], feature, 64, dim=None, is_train=is_train,
                          access_and_evict_config=config[name], name=name + "_lookup",
                          modify_graph=modify_graph, batch=batch)
            for name, feature in zip(names.values(), features)]
    return iterator, programs.model(rows, batch["label"], reuse=None if is_train else True)


def run_program(modify_graph, folder):
    """Training and evaluation losses, in their order, and the names of what was saved."""
    with programs.ascpipe(max_steps=200, train_steps=7, eval_steps=99, save_steps=3):
        initializer = tf.compat.v1.truncated_normal_initializer(seed=3)
        tables = {name: create_table(key_dtype=tf.int64, dim=tf.TensorShape([programs.DIM]), name=name,
                                     emb_initializer=initializer, device_vocabulary_size=100, host_vocabulary_size=200)
                  for name in ("user_table", "item_table")}
        config = {"user_table": {"access_threshold": 2}, "item_table": {"access_threshold": 1}}
        train_iterator, loss = build_graph(tables, TRAIN, True, modify_graph, config)
        eval_iterator, eval_loss = build_graph(tables, EVALUATION, False, modify_graph, config)
        dense_variables, sparse_variables = get_dense_and_sparse_variable()
        dense, sparse = tf.compat.v1.train.AdamOptimizer(0.01), create_hash_optimizer(0.01)
        gradients = dense.compute_gradients(loss, dense_variables + sparse_variables,
                                            gate_gradients=dense.GATE_GRAPH)
        train = tf.group(dense.apply_gradients(gradients[:len(dense_variables)]),
                         sparse.apply_gradients(gradients[len(dense_variables):]))
        saver = tf.compat.v1.train.Saver()
        if modify_graph:
            modify_graph_and_start_emb_cache(dump_graph=True)
        else:
            start_asc_pipeline()
        found = []
        with programs.session() as sess:
            sess.run(get_initializer(True) if modify_graph else train_iterator.initializer)
            sess.run(tf.compat.v1.global_variables_initializer())
            saver.save(sess, os.path.join(str(folder), "model-0"), global_step=0)
            for step in range(1, 200):
                try:
                    found.append(sess.run([loss, train])[0])
                except tf.errors.OutOfRangeError:
                    break
                if step % EVALUATE_EACH == 0:
                    sess.run(get_initializer(False) if modify_graph else eval_iterator.initializer)
                    found.extend(sess.run(eval_loss) for _ in EVALUATION)
                if step % SAVE_EACH == 0:
                    saver.save(sess, os.path.join(str(folder), "model-0"), global_step=step)
        return found, sorted(name for name in os.listdir(str(folder)) if name.startswith("sparse-"))


@pytest.mark.timeout_s(120)
def test_losses_and_saves_are_the_same_in_both_modes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = []
    for modify_graph in (False, True):
        folder = tmp_path / "saved-{}".format(modify_graph)
        folder.mkdir()
        found.append(run_program(modify_graph, folder))
    assert found[0] == found[1]
    losses, saved = found[0]
    assert len(losses) == len(TRAIN) + len(EVALUATION) * (len(TRAIN) // EVALUATE_EACH)
    assert saved == ["sparse-model-0-{}".format(step) for step in (0, 12, 6)]
