"""Programs that accumulate gradients over K batches, with tables and with variables of TensorFlow."""
import numpy as np
import tensorflow as tf

import ascpipe.tf as asc

v1 = tf.compat.v1
K = 3
BATCH = 4
IDS = np.random.RandomState(1).randint(0, 30, [60, 2])
LABELS = np.random.RandomState(2).rand(60).astype(np.float32)


class ByHand(v1.train.Optimizer):
    """Sums gradients over K steps in variables, and then applies them. Sparse gradients stay sparse."""

    def __init__(self, optimizer):
        super().__init__(use_locking=False, name="ByHand")
        self.optimizer = optimizer

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        with tf.init_scope():
            sums = [v1.Variable(tf.zeros(variable.shape), trainable=False, use_resource=True) for _, variable in pairs]
            seen = [v1.Variable(tf.zeros(variable.shape[:1]), trainable=False, use_resource=True)
                    for _, variable in pairs]
            count = v1.Variable(tf.zeros([], tf.int64), trainable=False, use_resource=True)
        added = []
        for (gradient, _), total, rows in zip(pairs, sums, seen):
            if isinstance(gradient, tf.IndexedSlices):
                added += [total.scatter_add(gradient), rows.scatter_add(
                    tf.IndexedSlices(tf.ones_like(gradient.indices, tf.float32), gradient.indices))]
            else:
                added.append(total.assign_add(gradient))

        def apply():
            given = []
            for (gradient, variable), total, rows in zip(pairs, sums, seen):
                if isinstance(gradient, tf.IndexedSlices):
                    which = tf.where(rows.read_value() > 0)[:, 0]
                    given.append((tf.IndexedSlices(tf.gather(total.read_value(), which), which,
                                                   tf.constant(variable.shape.as_list())), variable))
                else:
                    given.append((total.read_value(), variable))
            with tf.control_dependencies([self.optimizer.apply_gradients(given)]):
                return tf.group(*(each.assign(tf.zeros_like(each)) for each in [*sums, *seen]))

        with tf.control_dependencies(added):
            now = count.assign_add(1)
        with tf.control_dependencies([tf.cond(tf.equal(now % K, 0), apply, tf.no_op)]):
            return tf.group(*([] if global_step is None else [global_step.assign_add(1)]), name=name)


def accumulated(make):
    return lambda: asc.optimizers.accumulate(make(), K)


def by_hand(make):
    return lambda: ByHand(make())


class Program:
    """One table, trained by accumulated Adagrad in cycles of K batches.

    Attributes:
        table: the table.
        iterator: of batches of BATCH rows.
        loss: of a batch.
        train: the op that trains.
        session: with initialized variables, and the iterator at its begin.
    """

    def __init__(self, ids=IDS, labels=LABELS, make=lambda: asc.optimizers.Adagrad(0.1), mean=False, spec=None,
                 times=None, read_ahead=0, **given):
        sizes = {"device_vocabulary_size": 64, "initializer": v1.constant_initializer(0.3)}
        given = {name: value for name, value in {**sizes, **given}.items() if value is not None}
        self.table = asc.create_table("user", 3, **given)
        data = tf.data.Dataset.from_tensor_slices({"ids": ids, "labels": labels[:len(ids)]}).batch(BATCH)
        specs = [] if spec is None else [spec]
        if times is not None:
            stamps = tf.data.Dataset.from_tensor_slices(np.array(times, np.int64))
            data = tf.data.Dataset.zip((data, stamps)).map(lambda batch, stamp: {**batch, "time": stamp})
            specs.append(asc.FeatureSpec("time", is_timestamp=True))
        if specs:
            data = data.map(asc.insert_function(specs))
        self.iterator = v1.data.make_initializable_iterator(data.prefetch(read_ahead) if read_ahead else data)
        batch = self.iterator.get_next()
        rows = asc.sparse_lookup(self.table, *([batch["ids"]] if spec is None else [spec]), batch=batch)
        with v1.variable_scope("dense", use_resource=True):
            weights = v1.get_variable("weights", [3], initializer=v1.constant_initializer(0.2))
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.reduce_sum(rows, 1) * weights, 1) - batch["labels"]))
        self.train = asc.optimizers.accumulate(make(), K, mean=mean).minimize(
            self.loss, v1.train.get_or_create_global_step())
        self._asked = v1.placeholder(tf.int64, [None])
        self._reader = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(self._asked))
        self._read = asc.sparse_lookup(self.table, self._reader.get_next(), training=False, default_value="initial")
        self.saver = v1.train.Saver()
        asc.start()

    def begin(self, session):
        session.run([v1.global_variables_initializer(), self.iterator.initializer])
        return session

    def rows_of(self, session, keys):
        session.run(self._reader.initializer, {self._asked: keys})
        return session.run(self._read)
