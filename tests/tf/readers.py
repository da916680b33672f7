"""What tests of several graphs share: the batches, where rows live, and a graph that only evaluates."""
import numpy as np
import tensorflow as tf

from ascpipe.tf import Saver
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.tf import programs

SOURCE = programs.batches(12)
PROBES = programs.batches(6, seed=5)
MODES = {"device": {"device_vocabulary_size": 100},
         "host": {"device_vocabulary_size": 30, "host_vocabulary_size": 100},
         "expansion": {"device_vocabulary_size": 1}}


def adagrad():
    return programs.optimizer("adagrad", 0.3)


def sized(mode):
    """What makes the tables of a program, whose rows live where the mode says."""
    def table(name, rows=100, dim=programs.DIM, initializer=None, host_rows=0):
        return create_table(tf.int64, dim, name, tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11),
                            **MODES[mode])

    return table


class Reader:
    """A graph of its own that looks up every batch of ``source`` in evaluation."""

    def __init__(self, source, saver=False):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(1)
            self.tables = [programs.table("user"), programs.table("item")]
            features = programs.specs()
            self.iterator, self.batch = programs.insert(source, features, training=False)
            self.rows = [sparse_lookup(self.tables[place], spec, is_train=False, batch=self.batch)
                         for place, spec in zip((0, 0, 1), features)]
            self.loss = programs.model(self.rows, self.batch["label"])
            self.initialize = tf.compat.v1.global_variables_initializer()
            self.saver = Saver() if saver else None
            start_asc_pipeline()

    def session(self, **config):
        with self.graph.as_default():
            return programs.session(**config)

    def read(self, run, count):
        run.run(self.iterator.initializer)
        return [run.run(self.rows) for _ in range(count)]


def same(left, right):
    return all(np.array_equal(a, b) for one, other in zip(left, right) for a, b in zip(one, other))


def rings():
    return Process.current().running_pipeline().link.status()["rings"]


def read_here(program, run):
    """What a program's own evaluation channel reads of ``PROBES``."""
    run.run(program.eval_iterator.initializer)
    return [run.run(program.eval_rows) for _ in PROBES]
