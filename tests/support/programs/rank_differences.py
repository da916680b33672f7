"""Ranks that differ in one thing, many things one after the other: what each rank says of it, and how soon.

    horovodrun -np 2 python tests/support/programs/rank_differences.py FOLDER THING...

A thing of ``DIFFERENCES`` is other on the last rank, one of ``LEGAL`` may be. For each, a rank writes a line to
FOLDER/RANK.jsonl: its losses, or the error and the seconds until it came.
"""
import json
import os
import sys
import time
from typing import Any, Dict, List

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

v1 = tf.compat.v1

#: what is other on the last rank
DIFFERENCES = (
    "dim", "device_vocabulary_size", "host_vocabulary_size", "initial value", "kind of initial rows", "seed",
    "padding_keys", "average_gradients", "access_threshold", "eviction_threshold", "another table", "feature",
    "optimizer", "learning rate", "decay", "beta1", "combiner", "max_norm", "dense learning rate", "dense optimizer",
    "dense units", "name of a collective", "collective of its own")
#: what may be other on each rank
LEGAL = ("summaries", "data", "device", "variable of its own", "saver", "fetches", "collective that is not run")


class Case:
    """One program, in which ``thing`` is other where ``is_other``."""

    def __init__(self, thing: str, is_other: bool) -> None:
        self._thing, self._is_other = thing, is_other

    def pick(self, thing: str, usual: Any, other: Any) -> Any:
        """``usual``, or ``other`` where this thing is other."""
        return other if self.has(thing) else usual

    def has(self, thing: str) -> bool:
        """Whether this thing is other here."""
        return self._is_other and thing == self._thing

    def batches(self) -> Any:
        """Two batches."""
        for step in range(1, 3):
            yield {"id": np.arange(12).reshape(4, 3) % self.pick("data", 7, 5), "time": step,
                   "x": np.full((4, 2), step + hvd.rank(), np.float32)}

    def table(self) -> asc.Table:
        """The table."""
        value = self.pick("initial value", 1.0, 2.0)
        initializer = v1.constant_initializer(value) if not self.has("kind of initial rows") else \
            v1.random_uniform_initializer(0.0, 1.0, seed=1)
        if self._thing == "seed":
            initializer = v1.random_uniform_initializer(0.0, 1.0, seed=self.pick("seed", 1, 2))
        return asc.create_table(
            "user", self.pick("dim", 4, 8), initializer=initializer,
            device_vocabulary_size=self.pick("device_vocabulary_size", 64, 128),
            host_vocabulary_size=self.pick("host_vocabulary_size", 640, 1280),
            padding_keys=self.pick("padding_keys", [], [3]),
            average_gradients=self.pick("average_gradients", False, True))

    def rate(self) -> Any:
        """The learning rate of the table."""
        if self._thing != "decay":
            return self.pick("learning rate", 0.1, 0.2)
        return v1.train.exponential_decay(0.1, v1.train.get_or_create_global_step(), self.pick("decay", 100, 50), 0.9)

    def train(self) -> List[float]:
        """Build the program and train two steps; the losses."""
        table = self.table()
        specs = [asc.FeatureSpec(self.pick("feature", "id", "ids"), table_name="user", index_key="id",
                                 access_threshold=self.pick("access_threshold", 1, 2),
                                 eviction_threshold=self.pick("eviction_threshold", 5, 6)),
                 asc.FeatureSpec("time", is_timestamp=True)]
        if self.has("another table"):
            asc.create_table("item", 4, initializer=v1.zeros_initializer(), device_vocabulary_size=64)
        types, shapes = {"id": tf.int64, "time": tf.int64, "x": tf.float32}, {"id": [4, 3], "time": [], "x": [4, 2]}
        dataset = tf.data.Dataset.from_generator(self.batches, types, shapes).map(self.bags)
        iterator = v1.data.make_initializable_iterator(dataset.map(asc.insert_function(specs)).prefetch(2))
        batch = iterator.get_next()
        with tf.device(self.pick("device", None, "/device:CPU:0")):
            rows = asc.lookup_sparse(table, specs[0], None, self.pick("combiner", "sum", "mean"), batch=batch,
                                     max_norm=self.pick("max_norm", None, 3.0))
            inputs = tf.concat([tf.reshape(rows, [4, self.pick("dim", 4, 8)]), batch["x"]], axis=1)
            if self.has("name of a collective"):
                v1.layers.dense(batch["x"], 1, use_bias=False, kernel_initializer=v1.ones_initializer())
            dense = v1.layers.dense(inputs, self.pick("dense units", 3, 5), use_bias=False,
                                    kernel_initializer=v1.ones_initializer(), name=self.name())
            loss = tf.reduce_mean(tf.square(dense))
        return self.run(iterator, loss, self.updates(loss))

    def bags(self, batch: Dict[str, tf.Tensor]) -> Dict[str, Any]:
        """The ids of a line are a bag."""
        places = tf.where(tf.greater_equal(batch["id"], 0))
        shape = tf.shape(batch["id"], out_type=tf.int64)
        return {**batch, "id": tf.SparseTensor(places, tf.gather_nd(batch["id"], places), shape)}

    def name(self) -> Any:
        """Of the dense layer: TensorFlow counts layers that have none."""
        return None if self._thing == "name of a collective" else "layer"

    def updates(self, loss: tf.Tensor) -> List[tf.Operation]:
        """Those of rows, and of the dense layer, whose gradients are averaged."""
        if self._thing == "beta1":
            rows: Any = asc.optimizers.LazyAdam(0.1, beta1=self.pick("beta1", 0.9, 0.8))
        elif self.has("optimizer"):
            rows = asc.optimizers.Adagrad(0.1)
        else:
            rows = asc.optimizers.GradientDescent(self.rate())
        dense: Any = v1.train.GradientDescentOptimizer(self.pick("dense learning rate", 0.1, 0.3))
        if self.has("dense optimizer"):
            dense = v1.train.AdagradOptimizer(0.1)
        variables = [variable for variable in v1.trainable_variables() if "user" not in variable.name]
        pairs = [(gradient, variable) for gradient, variable in dense.compute_gradients(loss, variables)
                 if gradient is not None]
        averaged = [(hvd.allreduce(gradient, op=hvd.Average), variable) for gradient, variable in pairs]
        updates = [dense.apply_gradients(averaged), rows.minimize(loss, var_list=asc.table_variables())]
        if self.has("collective of its own"):
            updates.append(hvd.allreduce(loss, name="mine"))
        if self.has("collective that is not run"):
            hvd.allreduce(loss, name="not_run")
        if self.has("variable of its own"):
            own = v1.get_variable("own", [2], initializer=v1.ones_initializer())
            updates.append(v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(own * own), var_list=[own]))
        return updates

    def run(self, iterator: Any, loss: tf.Tensor, updates: List[tf.Operation]) -> List[float]:
        """Two steps."""
        fetches = [updates, loss]
        if self.has("summaries"):
            fetches.append(v1.summary.merge([v1.summary.scalar("loss", loss), v1.summary.histogram("losses", loss)]))
        if self.has("fetches"):
            fetches.append(tf.reduce_max(loss) * 2.0)
        if self.has("saver"):
            asc.Saver()
        asc.start()
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), iterator.initializer])
            return [float(session.run(fetches)[1]) for _ in range(2)]


def said(thing: str) -> Dict[str, Any]:
    """What this rank says of a thing."""
    told: Dict[str, Any] = {"thing": thing, "losses": [], "error": None}
    asc.init()
    began = time.monotonic()
    with tf.Graph().as_default():
        try:
            told["losses"] = Case(thing, is_other=hvd.rank() == hvd.size() - 1).train()
        except tf.errors.OpError as error:
            told["error"] = error.message
        told["after_s"] = time.monotonic() - began
        asc.shutdown()
    return told


def main() -> None:
    v1.disable_eager_execution()
    hvd.init()
    with open(os.path.join(sys.argv[1], "{}.jsonl".format(hvd.rank())), "w") as file:
        for thing in sys.argv[2:]:
            file.write(json.dumps(said(thing)) + "\n")
            file.flush()


if __name__ == "__main__":
    main()
