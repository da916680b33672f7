"""The smallest program: one table whose loss is the sum of the rows looked up, so that each occurrence of a key takes
the learning rate from its row."""
import contextlib
import functools

import numpy as np
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.tf import programs

DIM = 2
EXPANSION = {"expansion": True}  #: an argument of ``one_table``


def batch(*ids, time=None, dtype=np.int64):
    """A batch of one list of ids, and its time, if it has one."""
    return times(np.array(ids, dtype), time)


def times(ids, time):
    return {"ids": ids} if time is None else {"ids": ids, "time": np.int64(time)}


sgd = functools.partial(programs.optimizer, "gradient_descent", 1.0)


class OneTable:
    """The program, between ``with programs.ascpipe():`` and the session.

    Args:
        batches: of the training channel, from ``batch``.
        asked: keys whose rows ``read`` gives.
        spec: arguments of the FeatureSpec, ``lookup`` of the training lookup, ``serving_default`` of both; others are
            those of the table.
    """

    def __init__(self, batches, asked, *, optimizer=sgd, spec=None, lookup=None, serving_default=None,
                 stages=lambda data: data.prefetch(4), **table):
        self.asked = list(asked)
        arguments = {"device_vocabulary_size": 100, "emb_initializer": tf.compat.v1.ones_initializer(), **table}
        self.table = create_table(tf.int64, DIM, "ids", **arguments)
        self.iterator, self.batch, self.rows = self._look_up(
            batches, True, stages, spec, serving_default_value=serving_default, **(lookup or {}))
        self.step = tf.compat.v1.train.get_or_create_global_step()
        trained_rows, (target,) = programs.trained(self.table)
        (gradient,) = tf.gradients(tf.reduce_sum(self.rows), trained_rows)
        # Nothing else makes the update wait for the lookup, as this gradient does not depend on the rows.
        with tf.control_dependencies([self.rows]):
            gradient = tf.IndexedSlices(tf.identity(gradient.values), gradient.indices, gradient.dense_shape)
        self.train = optimizer().apply_gradients([(gradient, target)], global_step=self.step)
        everything = {key: np.array(self.asked, np.int64) if key == "ids" else value
                      for key, value in batches[0].items()}
        self.eval_iterator, _, self.eval_rows = self._look_up(
            [everything], False, lambda data: data.repeat(), spec, serving_default_value=serving_default)
        self._run = None

    def _look_up(self, batches, training, stages, spec, **lookup):
        features = [FeatureSpec("ids", index_key="ids", **(spec or {}))]
        if "time" in batches[0]:
            features.append(FeatureSpec("time", is_timestamp=True))
        shapes = {key: [None] * np.ndim(value) for key, value in batches[0].items()}
        data = stages(programs.dataset_of(batches, shapes).map(get_asc_insert_func(features, is_training=training)))
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        taken = iterator.get_next()
        return iterator, taken, sparse_lookup(self.table, features[0], batch=taken, is_train=training, **lookup)

    def start(self, run, *, variables=True):
        """Run the initializers, of ``variables``, too; the session belongs to the program from now on."""
        self._run = run
        run.run([self.iterator.initializer, self.eval_iterator.initializer])
        if variables:
            run.run(tf.compat.v1.global_variables_initializer())

    def take(self):
        """Train one batch; the first value of each row that was looked up, before the step."""
        return self._run.run([self.rows, self.train])[0][..., 0].tolist()

    def read(self):
        """First value of the row of each key that is asked for, after the last step."""
        return dict(zip(self.asked, self._run.run(self.eval_rows)[:, 0].tolist()))


@contextlib.contextmanager
def one_table(batches, asked, *, expansion=False, **kwargs):
    """The program, between ``init`` and its end; its table may be an expansion table."""
    with programs.ascpipe(use_dynamic_expansion=expansion):
        yield OneTable(batches, asked, **kwargs)


def trained(batches, asked, **kwargs):
    """What each step looked up, the rows of the keys that are asked for, and the table's size, at the end."""
    with one_table(batches, asked, **kwargs) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            return [program.take() for _ in batches], program.read(), program.table.size()
