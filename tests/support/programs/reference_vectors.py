"""Trains batches that are all alike on several ranks, and writes what their rings hold of one of them.

    horovodrun -np 4 python tests/support/programs/reference_vectors.py FOLDER

FOLDER/ids.json has the ids of each rank: a list for each table. FOLDER/RANK.json gets, by channel ("local", "train"),
a dictionary of arrays for each table. The batch is one that no step has taken, so its frames are as workers left them.
"""
import json
import mmap
import os
import sys

import numpy as np
import tensorflow as tf

from ascpipe.control.trainer_link import TrainerLink
from ascpipe.layout.words import LOCAL, PLANNED, TRAIN
from ascpipe.shm.ring import RingView
from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers.adagrad import create_hash_optimizer
from mx_rec.util.initialize import init, terminate_config_initializer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.support.tensorflows import use_tensorflow_1
from tests.support.waiting import wait_until

use_tensorflow_1()

RANK, FOLDER = int(os.environ["HOROVOD_RANK"]), sys.argv[1]
BATCHES, LATER = 6, 1
ARRAYS = {LOCAL: ("unique", "restore", "occurrences"), TRAIN: ("ids", "unique", "restore", "occurrences", "slots")}
NAMES = {LOCAL: "local", TRAIN: "train"}
rings = {}


def keep_rings() -> None:
    """Map the rings that a start gives this process once more."""
    start = TrainerLink.start

    def starts(self, streams, tables):
        segments = start(self, streams, tables)
        for fd, size in segments.streams.values():
            ring = RingView(np.frombuffer(mmap.mmap(fd, size), np.uint8))
            rings[ring.channel] = ring
        return segments

    TrainerLink.start = starts


def arrays(ring, number, column):
    """What workers have made of the part of a table."""
    part = ring.part(number, column)
    counts = {"ids": part["id_count"], "restore": part["id_count"]}
    return {name: part.array(name, counts.get(name, part["unique_count"])).tolist() for name in ARRAYS[ring.channel]}


def main() -> None:
    """Train a batch, and look at a later one."""
    with open(os.path.join(FOLDER, "ids.json")) as file:
        ids = json.load(file)[RANK]
    keep_rings()
    init(train_steps=-1, eval_steps=-1, use_dynamic=True)
    names = ["table_{}".format(number) for number in range(len(ids))]
    tables = [create_table(key_dtype=tf.int64, dim=tf.TensorShape([4]), name=name,
                           emb_initializer=tf.compat.v1.truncated_normal_initializer(seed=1),
                           device_vocabulary_size=256) for name in names]
    specs = [FeatureSpec(name, table_name=name, index_key=name) for name in names]
    batch = {name: np.array([one] * BATCHES, np.int64) for name, one in zip(names, ids)}
    dataset = tf.data.Dataset.from_tensor_slices(batch).map(
        get_asc_insert_func(tgt_key_specs=specs, is_training=True, dump_graph=False)).prefetch(BATCHES)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
    features = iterator.get_next()
    rows = [sparse_lookup(table, spec, len(one), dim=None, is_train=True, name=table.table_name, modify_graph=False,
                          batch=features)
            for table, spec, one in zip(tables, specs, ids)]
    loss = tf.add_n([tf.reduce_sum(tf.square(one)) for one in rows])
    start_asc_pipeline()
    _, variables = get_dense_and_sparse_variable()
    train = create_hash_optimizer(0.1).apply_gradients(list(zip(tf.gradients(loss, variables), variables)))
    with tf.compat.v1.Session() as session:
        session.run(iterator.initializer)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(train)
        wait_until(lambda: all(rings[TRAIN].word(LATER, column) == PLANNED for column in range(len(ids))))
        found = {NAMES[channel]: [arrays(ring, LATER, column) for column in range(len(ids))]
                 for channel, ring in rings.items()}
        for _ in range(BATCHES - 1):
            session.run(train)
    with open(os.path.join(FOLDER, "{}.json".format(RANK)), "w") as file:
        json.dump(found, file)
    terminate_config_initializer()


main()
