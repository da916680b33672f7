"""A program as the documents of Rec SDK write it, with its switches: tier, shapes, timestamps, kind of iterator,
features or graph modification. None of them changes a bit of what it computes."""
import itertools
import os
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.constants.constants import ASCEND_TIMESTAMP
from mx_rec.core.asc.feature_spec import FeatureSpec
from mx_rec.core.asc.helper import get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.on_disk import on_disk
from tests.tf import programs

TRAIN, EVALUATION = ([{**batch, "time": np.int64(100 + number)} for number, batch in enumerate(source)]
                     for source in (programs.batches(12), programs.batches(3, seed=4)))
EVALUATE_EACH, SAVE_EACH = 4, 6
SEND_COUNT = 24  #: distinct keys of a batch, at most
TIERS = {"device": {"device_vocabulary_size": 100}, "expansion": {},
         "host": {"device_vocabulary_size": 30, "host_vocabulary_size": 200}, "disk": on_disk(30, 200)}


class Switches(NamedTuple):
    tier: str = "device"
    modify_graph: bool = False
    static: bool = False
    timestamp: bool = False
    one_shot: bool = False


def make_batch_and_iterator(source, feature_spec_list, is_training, use):
    dataset = programs.dataset(source)
    if use.static:
        dataset = dataset.map(lambda batch: {key: tf.reshape(value, source[0][key].shape)
                                             for key, value in batch.items()})
    if not is_training:
        dataset = dataset.repeat()  # a one-shot iterator does not begin again
    if not use.modify_graph:
        dataset = dataset.map(get_asc_insert_func(tgt_key_specs=feature_spec_list, is_training=is_training))
    dataset = dataset.prefetch(100)
    iterator = dataset.make_one_shot_iterator() if use.one_shot else dataset.make_initializable_iterator()
    return iterator.get_next(), iterator


def build_graph(tables, source, is_train, use, config):
    names = {"a": "user_table", "b": "user_table", "c": "item_table"}
    specs = [FeatureSpec(key, table_name=name, index_key=key, access_threshold=config[name]["access_threshold"])
             for key, name in names.items()]
    times = [FeatureSpec("time", is_timestamp=True)] if use.timestamp else []
    batch, iterator = make_batch_and_iterator(source, specs + times, is_train, use)
    if times and use.modify_graph and is_train:
        tf.compat.v1.add_to_collection(ASCEND_TIMESTAMP, batch["time"])
    features = [batch[key] for key in names] if use.modify_graph else specs
    rows = [sparse_lookup(tables[name], feature, SEND_COUNT if use.static else None, dim=None, is_train=is_train,
                          access_and_evict_config=config[name], name=name + "_lookup",
                          modify_graph=use.modify_graph, batch=batch)
            for name, feature in zip(names.values(), features)]
    if use.static:
        assert all(None not in row.shape.as_list() for row in rows)
    return iterator, programs.model(rows, batch["label"], reuse=None if is_train else True)


def run_program(use, folder):
    """Training and evaluation losses, in their order, and the names of what was saved."""
    with programs.ascpipe(max_steps=200, train_steps=7, eval_steps=99, save_steps=3, use_dynamic=not use.static,
                          use_dynamic_expansion=use.tier == "expansion"):
        initializer = tf.compat.v1.truncated_normal_initializer(seed=3)
        tables = {name: create_table(key_dtype=tf.int64, dim=tf.TensorShape([programs.DIM]), name=name,
                                     emb_initializer=initializer, **TIERS[use.tier])
                  for name in ("user_table", "item_table")}
        config = {"user_table": {"access_threshold": 2}, "item_table": {"access_threshold": 1}}
        train_iterator, loss = build_graph(tables, TRAIN, True, use, config)
        eval_iterator, eval_loss = build_graph(tables, EVALUATION, False, use, config)
        dense_variables, sparse_variables = get_dense_and_sparse_variable()
        dense, sparse = tf.compat.v1.train.AdamOptimizer(0.01), programs.optimizer("lazy_adam", 0.01)
        if use.tier == "expansion":
            sparse_variables, targets = programs.trained()
        else:
            targets = sparse_variables
        gradients = [gradient for gradient, _ in dense.compute_gradients(
            loss, dense_variables + sparse_variables, gate_gradients=dense.GATE_GRAPH)]
        train = tf.group(dense.apply_gradients(zip(gradients[:len(dense_variables)], dense_variables)),
                         sparse.apply_gradients(list(zip(gradients[len(dense_variables):], targets))))
        saver = tf.compat.v1.train.Saver()
        if use.modify_graph:
            modify_graph_and_start_emb_cache(dump_graph=True)
        else:
            start_asc_pipeline()

        def initialize(is_train, iterator):
            if use.modify_graph:
                sess.run(get_initializer(is_train))
            elif not use.one_shot:
                sess.run(iterator.initializer)

        found = []
        with programs.session() as sess:
            initialize(True, train_iterator)
            sess.run(tf.compat.v1.global_variables_initializer())
            saver.save(sess, os.path.join(str(folder), "model-0"), global_step=0)
            for step in range(1, 200):
                try:
                    found.append(sess.run([loss, train])[0])
                except tf.errors.OutOfRangeError:
                    break
                if step % EVALUATE_EACH == 0:
                    initialize(False, eval_iterator)
                    found.extend(sess.run(eval_loss) for _ in EVALUATION)
                if step % SAVE_EACH == 0:
                    saver.save(sess, os.path.join(str(folder), "model-0"), global_step=step)
        return found, sorted(name for name in os.listdir(str(folder)) if name.startswith("sparse-"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run_program(Switches(), tmp_path_factory.mktemp("plain"))


#: Each value of each switch, with few programs.
SOME = [Switches("host", modify_graph=True, static=True), Switches("host", timestamp=True),
        Switches("device", modify_graph=True, timestamp=True, one_shot=True),
        Switches("expansion", static=True, timestamp=True, one_shot=True)]
EVERY = [Switches(*switches) for switches in itertools.product(TIERS, *[(False, True)] * 4)]


@pytest.mark.parametrize("use", SOME + [
    pytest.param(use, marks=pytest.mark.long) for use in EVERY if use not in SOME and use != Switches()],
    ids=lambda use: "-".join([use.tier] + [name for name, value in use._asdict().items() if value is True]))
@pytest.mark.smoke
def test_losses_and_saves_are_the_same_with(use, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "saved"
    folder.mkdir()
    assert run_program(use, folder) == expected
    losses, saved = expected
    assert len(losses) == len(TRAIN) + len(EVALUATION) * (len(TRAIN) // EVALUATE_EACH)
    assert saved == ["sparse-model-0-{}".format(step) for step in (0, 12, 6)]
