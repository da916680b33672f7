"""Many random schedules of saves, restores, evictions, thresholds, evaluations and changes of rows, on any ranks.

    horovodrun -np 2 python tests/support/programs/rank_schedules.py FOLDER SEED COUNT

Gradients are whole numbers and rates powers of two, so all sums are exact: the rows of any number of ranks are the
same bits. Several ranks begin saves in the background and go on, and calls into the native side are delayed at random
places; one rank waits for each save. Each rank writes one line per schedule to FOLDER/RANK.jsonl: the rows that it has
evaluated, and on rank 0 digests of what was saved.
"""
import contextlib
import hashlib
import json
import os
import random
import shutil
import sys
import time
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe import ranks
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints
from ascpipe.tf.running import native
from tests.support.checkpoints import by_key
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

RANK, RANKS = (ranks.get_rank_id(), ranks.get_rank_size()) if ranks.launched() else (0, 1)
KEYS, BATCH, DIM = 120, 24, 4
AGE = 3  #: of keys that are evicted, in steps
THRESHOLDS = (1, 2, 3)
CHANGES = ("assign", "delete", "freeze", "freeze", "unfreeze", "read")  #: of the table, by rank 0
DELAYED = 0.1  #: of the calls into the native side
MOST_DELAY_S = 0.01

Action = Tuple[Any, ...]


def schedule(seed: str) -> List[Action]:
    """What happens, the same on all ranks; the last member of an action says whether rank 0 alone calls it."""
    numbers = random.Random(seed)
    actions: List[Action] = [("train", numbers.randint(1, 4), False)]
    saves = 0
    for _ in range(numbers.randint(4, 9)):
        alone = numbers.random() < 0.5
        kind = numbers.choice(["train", "train", "save", "save", "save", "evict", "threshold", "restore", "evaluate",
                               "rows", "rows"])
        if kind == "save":
            how = {"background": numbers.random() < 0.7, "save_delta": numbers.random() < 0.4}
            saves += 1
            actions.append(("save", saves, how, alone))
        elif kind == "restore" and saves:
            actions.append(("restore", numbers.randint(0, 9), True))
        elif kind == "threshold":
            actions.append(("threshold", numbers.choice(THRESHOLDS), alone))
        elif kind == "rows":
            actions.append((numbers.choice(CHANGES), numbers.randint(0, 10 ** 6), True))
        elif kind in ("evict", "evaluate"):
            actions.append((kind, alone and kind == "evict"))
        else:
            actions.append(("train", numbers.randint(1, 3), False))
    return actions


def part(values: np.ndarray) -> np.ndarray:
    """This rank's part of a batch."""
    return np.array_split(values, RANKS)[RANK]


def batches(seed: int) -> Iterator[Dict[str, np.ndarray]]:
    """Without an end: keys, whole numbers that they are multiplied by, and the number of the batch as its time."""
    numbers = np.random.RandomState(seed)
    step = 0
    while True:
        step += 1
        ids = np.minimum(KEYS - 1, numbers.geometric(0.03, BATCH)).astype(np.int64)
        yield {"id": part(ids), "weight": part(numbers.randint(-3, 4, BATCH).astype(np.float32)), "time": step}


class Program:
    """The graph: a table with a threshold and evictions, training, and an evaluation of all keys."""

    def __init__(self, seed: int) -> None:
        self.table = asc.create_table("t", DIM, initializer=tf.compat.v1.constant_initializer(1.0),
                                       device_vocabulary_size=40 * RANKS, host_vocabulary_size=400)
        types = {"id": tf.int64, "weight": tf.float32, "time": tf.int64}
        shapes = {"id": [None], "weight": [None], "time": []}
        training = tf.data.Dataset.from_generator(lambda: batches(seed), types, shapes)
        spec, batch, self.iterator = self._read(training, is_training=True)
        rows = asc.sparse_lookup(self.table, spec, batch=batch)
        loss = tf.reduce_sum(rows * tf.expand_dims(batch["weight"], 1))
        self.train = asc.optimizers.GradientDescent(0.25).minimize(loss, var_list=asc.table_variables())
        keys = {"id": part(np.arange(KEYS)), "weight": np.ones(len(part(np.arange(KEYS))), np.float32), "time": 1}
        every = tf.data.Dataset.from_generator(lambda: iter([keys]), types, shapes)
        spec, batch, self.keys = self._read(every, is_training=False)
        self.rows = asc.sparse_lookup(self.table, spec, batch=batch, training=False)
        self.set_threshold = {value: asc.set_threshold(value) for value in THRESHOLDS}
        self.saver = asc.Saver(max_to_keep=None)
        asc.start()

    def _read(self, dataset: tf.data.Dataset, *, is_training: bool) -> Tuple[Any, Dict[str, tf.Tensor], Any]:
        spec = asc.FeatureSpec("id", table_name="t", index_key="id", access_threshold=1, eviction_threshold=AGE)
        times = asc.FeatureSpec("time", is_timestamp=True)
        dataset = dataset.map(asc.insert_function([spec, times], training=is_training)).prefetch(4)
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        return spec, iterator.get_next(), iterator


class Schedules:
    """Runs schedules in a session."""

    def __init__(self, program: Program, session: tf.compat.v1.Session, folder: str) -> None:
        self._program, self._session, self._folder = program, session, folder
        self._delays = random.Random(RANK)
        self._rows: List[str] = []
        self._table = program.table
        self._changes: List[Any] = []

    def run(self, name: str) -> Dict[str, Any]:
        """One schedule: its actions, the rows of each evaluation, and digests of what was saved."""
        self._rows, self._changes = [], []
        directory = os.path.join(self._folder, name)
        actions = schedule(name)
        for kind, *what, alone in actions:
            self._pause()
            if not alone or RANK == 0:
                getattr(self, "_" + kind)(directory, *what)
        asc.wait_for_save()
        self._evaluate(directory)
        saved = self._saved(directory) if RANK == 0 else []
        if RANK == 0:
            shutil.rmtree(directory, ignore_errors=True)
        return {"actions": actions, "rows": self._rows, "saved": saved, "changes": self._changes}

    def _pause(self) -> None:
        if RANKS > 1 and self._delays.random() < 0.3:
            time.sleep(self._delays.random() * 3.0 * MOST_DELAY_S)

    def _train(self, directory: str, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._program.train)

    def _save(self, directory: str, number: int, how: Dict[str, bool]) -> None:
        self._program.saver.save(self._session, os.path.join(directory, "m"), global_step=number, **how)
        if RANKS == 1:
            asc.wait_for_save()

    def _restore(self, directory: str, number: int) -> None:
        asc.wait_for_save()
        found = complete_checkpoints(directory)  # a full save has removed the deltas before it
        self._program.saver.restore(self._session, found[number % len(found)].prefix)

    def _evict(self, directory: str) -> None:
        asc.trigger_evict(self._session)

    def _assign(self, directory: str, seed: int) -> None:
        dice = np.random.RandomState(seed)
        self._table.assign(dice.choice(KEYS, 6, replace=False), dice.randint(-9, 9, (6, DIM)).astype(np.float32))

    def _delete(self, directory: str, seed: int) -> None:
        self._changes.append(self._table.delete(np.random.RandomState(seed).choice(KEYS, 6, replace=False)))

    def _freeze(self, directory: str, seed: int) -> None:
        self._table.freeze()

    def _unfreeze(self, directory: str, seed: int) -> None:
        self._table.unfreeze()

    def _read(self, directory: str, seed: int) -> None:
        found = self._table.read(np.random.RandomState(seed).choice(KEYS, 9))
        self._changes.append([np.nan_to_num(values, nan=-99.0).tolist() for values in found[:5]])

    def _threshold(self, directory: str, value: int) -> None:
        self._session.run(self._program.set_threshold[value])

    def _evaluate(self, directory: str) -> None:
        self._session.run(self._program.keys.initializer)
        rows = self._session.run(self._program.rows)
        self._rows.append(rows.tobytes().hex())

    def _saved(self, directory: str) -> List[str]:
        told = []
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            if name.startswith(("sparse-", "delta-")):
                with open_checkpoint(os.path.join(directory, name.split("sparse-", 1)[1])) as checkpoint:
                    found = [by_key(checkpoint.blocks("t")), by_key(checkpoint.candidates("t"))]
                told.append(hashlib.sha256(repr([sorted(one.items()) for one in found]).encode()).hexdigest())
        return told


@contextlib.contextmanager
def delays() -> Iterator[None]:
    """Calls into the native side are delayed at random, on every thread of a rank of several."""
    call, numbers = native.call, random.Random(100 + RANK)

    def delayed(name: str, *arguments: Any) -> None:
        if numbers.random() < DELAYED:
            time.sleep(numbers.random() * MOST_DELAY_S)
        call(name, *arguments)
        if numbers.random() < DELAYED:
            time.sleep(numbers.random() * MOST_DELAY_S)

    native.call = delayed if RANKS > 1 else call
    yield
    native.call = call


def main() -> None:
    folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    tf.compat.v1.disable_eager_execution()
    if RANKS > 1:
        import horovod.tensorflow as hvd
        hvd.init()
    asc.init()
    program = Program(seed)
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    with delays(), tf.compat.v1.Session(config=config) as session, \
            open(os.path.join(folder, "{}.jsonl".format(RANK)), "w") as file:
        session.run([tf.compat.v1.global_variables_initializer(), program.iterator.initializer])
        schedules = Schedules(program, session, folder)
        for number in range(count):
            file.write(json.dumps(schedules.run("{}-{}".format(seed, number))) + "\n")
            file.flush()
        asc.shutdown()


if __name__ == "__main__":
    main()
