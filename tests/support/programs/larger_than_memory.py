"""Trains a table whose rows take more bytes than its process group has, and tells what the group took.

    python -m tests.support.programs.larger_than_memory FOLDER GROUP KEYS STEPS [CHECKPOINT]

FOLDER is on the disk for the rows; GROUP is a memory cgroup (version 1), of which this process makes itself a member
before it begins.  It trains each of KEYS keys once, then STEPS batches of random ones, and saves.  With a CHECKPOINT it
restores that instead.  It prints a line of JSON: how many batches it trained and the bytes of the group each 100 of
them, the most that the group ever had, how often a process of it was killed for want of memory, the state of the table
as `ascpipe status` has it, what it saved, and how far the rows of some keys, read by an evaluation, are from what numpy
computes.
"""
import json
import os
import sys
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np

DIM, RATE, ACCUMULATED = 64, 0.05, 0.1
FIRST, BATCH = 20_000, 2_048  #: ids of a batch in the first pass, and afterwards
DEVICE, HOST = 40_000, 400_000
WATCHED = 4_096  #: keys whose rows are computed beside


def batches(keys: int, steps: int) -> Iterator[np.ndarray]:
    """The ids of each batch, int64[n]."""
    order = np.random.RandomState(1).permutation(keys).astype(np.int64)
    for begin in range(0, keys, FIRST):
        yield order[begin:begin + FIRST]
    for step in range(steps):
        yield np.random.RandomState(step + 2).randint(0, keys, BATCH).astype(np.int64)


def watched(keys: int) -> np.ndarray:
    """The keys whose rows are computed beside, int64[n]."""
    return np.random.RandomState(0).choice(keys, WATCHED, replace=False).astype(np.int64)


def computed(keys: int, steps: int) -> np.ndarray:
    """The value of all columns of their rows by Adagrad, float32[n]: each occurrence in a batch has a gradient of 1."""
    of = watched(keys)
    values, accumulated = np.zeros(of.size, np.float32), np.full(of.size, ACCUMULATED, np.float32)
    place = np.full(keys, -1, np.int32)
    place[of] = np.arange(of.size)
    for ids in batches(keys, steps):
        found, counts = np.unique(place[ids], return_counts=True)
        gradients = counts[found >= 0].astype(np.float32)
        found = found[found >= 0]
        accumulated[found] += gradients * gradients
        values[found] -= np.float32(RATE) * gradients / np.sqrt(accumulated[found])
    return values


class Group:
    """A memory cgroup that this process and its children are in."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(os.path.join(path, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def bytes(self) -> int:
        """Of memory, shared memory among it, without files that are cached."""
        found = self._numbers("memory.stat")
        return found["rss"] + found["shmem"]

    def peak(self) -> int:
        """The most bytes that it ever had, with files that were cached."""
        with open(os.path.join(self._path, "memory.max_usage_in_bytes")) as file:
            return int(file.read())

    def kills(self) -> int:
        """How many of its processes were killed for want of memory."""
        return self._numbers("memory.oom_control")["oom_kill"]

    def _numbers(self, name: str) -> Dict[str, int]:
        with open(os.path.join(self._path, name)) as file:
            return {words[0]: int(words[1]) for words in map(str.split, file)}


def run(folder: str, group: Group, keys: int, steps: int, checkpoint: str) -> Dict[str, Any]:
    """All of it, with a daemon of its own."""
    import tensorflow as tf

    from mx_rec.core.asc.helper import FeatureSpec, get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import create_table, sparse_lookup
    from mx_rec.optimizers import adagrad
    from mx_rec.util.initialize import init, terminate_config_initializer
    from mx_rec.util.variable import get_dense_and_sparse_variable
    from tests.support.programs.scenarios import status

    init()
    table = create_table(tf.int64, tf.TensorShape([DIM]), "user", tf.compat.v1.zeros_initializer(),
                         device_vocabulary_size=DEVICE, host_vocabulary_size=HOST, ssd_vocabulary_size=keys - HOST,
                         ssd_data_path=[folder])

    def rows_of(ids: Any, is_train: bool) -> Tuple[tf.Tensor, Any]:
        spec = FeatureSpec("id", table_name="user", index_key="id")
        data = tf.data.Dataset.from_generator(ids, {"id": tf.int64}, {"id": [None]})
        data = data.map(get_asc_insert_func(tgt_key_specs=[spec], is_training=is_train, dump_graph=False))
        iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(10))
        found = sparse_lookup(table, spec, FIRST, dim=None, is_train=is_train, name="rows", modify_graph=False,
                              batch=iterator.get_next())
        return found, iterator

    rows, iterator = rows_of(lambda: ({"id": ids} for ids in batches(keys, steps)), is_train=True)
    read, eval_iterator = rows_of(lambda: iter([{"id": watched(keys)}]), is_train=False)
    loss = tf.reduce_sum(rows)
    _, variables = get_dense_and_sparse_variable()
    optimizer = adagrad.create_hash_optimizer(RATE, ACCUMULATED)
    update = optimizer.apply_gradients(list(zip(tf.gradients(loss, variables), variables)))
    saver = tf.compat.v1.train.Saver()
    start_asc_pipeline()
    seen: List[int] = []

    def train(session: Any) -> int:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(iterator.initializer)
        trained = 0
        try:
            while True:
                session.run(update)
                trained += 1
                if trained % 100 == 0:
                    seen.append(group.bytes())
        except tf.errors.OutOfRangeError:
            return trained

    with tf.compat.v1.Session() as session:
        trained, saved = 0, ""
        if checkpoint:
            saver.restore(session, checkpoint)
        else:
            trained = train(session)
            saved = saver.save(session, os.path.join(folder, "saved", "model"), global_step=trained)
        session.run(eval_iterator.initializer)
        found = session.run(read)
        (state,) = status()["tables"]
    terminate_config_initializer()
    want = np.repeat(computed(keys, steps)[:, None], DIM, axis=1)
    return {"trained": trained, "bytes": seen, "peak": group.peak(), "kills": group.kills(), "state": state,
            "saved": saved, "off": float(np.abs(found - want).max()), "largest": float(np.abs(want).max())}


def main() -> None:
    """All of it."""
    folder, group, keys, steps, *checkpoint = sys.argv[1:]
    told = run(folder, Group(group), int(keys), int(steps), *checkpoint or [""])
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
