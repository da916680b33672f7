"""Asks iterators for what TensorFlow has, before and after graph modification, in every order of two calls.

    python -m tests.support.programs.asked_iterators CALL...

Prints a line of JSON before each order and one after it: how a program ended that makes the two calls and trains,
``trained`` or ``refused``. An abort of the process is what the test looks for.
"""
import itertools
import json
import sys

import tensorflow as tf

from mx_rec.graph.modifier import GraphModifierHook, modify_graph_and_start_emb_cache
from tests.support.tensorflows import use_tensorflow_1
from tests.tf import programs

use_tensorflow_1()

SOURCE = programs.batches(6)


class Asked:
    """A program that was not modified yet, and what it asks of its iterator; what is to be run is collected."""

    def __init__(self, one_shot):
        self.data = programs.dataset(SOURCE).prefetch(2) if not one_shot else tf.data.Dataset.from_tensors(
            SOURCE[0]).repeat(12).prefetch(2)
        self.iterator = (tf.compat.v1.data.make_one_shot_iterator if one_shot
                         else tf.compat.v1.data.make_initializable_iterator)(self.data)
        self.initializers = [] if one_shot else [self.iterator.initializer]
        self.wanted = []
        batch = self.iterator.get_next()
        table = programs.table("a")
        rows = programs.sparse_lookup(table, batch["a"], is_train=True, modify_graph=True)
        self.train = programs.optimizer("gradient_descent", 0.1).minimize(
            tf.reduce_sum(rows), var_list=[table.variable])

    def get_next(self):
        self.wanted.append(self.iterator.get_next())

    def make_initializable_iterator(self):
        other = tf.compat.v1.data.make_initializable_iterator(self.data)
        self.initializers.append(other.initializer)
        self.wanted.append(other.get_next())

    def make_one_shot_iterator(self):
        data = tf.data.Dataset.from_tensors(SOURCE[0]).repeat()
        self.wanted.append(tf.compat.v1.data.make_one_shot_iterator(data).get_next())

    def make_initializer(self):
        self.initializers.append(self.iterator.make_initializer(self.data))

    def from_string_handle(self):
        other = tf.compat.v1.data.Iterator.from_string_handle(
            self.iterator.string_handle(), tf.compat.v1.data.get_output_types(self.data),
            tf.compat.v1.data.get_output_shapes(self.data))
        self.wanted.append(other.get_next())

    def get_next_as_optional(self):
        optional = tf.data.experimental.get_next_as_optional(self.iterator)
        self.wanted.append(optional.get_value())

    def modify(self):
        modify_graph_and_start_emb_cache()

    def modifying_hook(self):
        GraphModifierHook(modify_graph=True).begin()

    def starting_hook(self):
        GraphModifierHook(modify_graph=False).begin()


def ended(calls, one_shot):
    """How a program ends that makes two calls, is modified if it was not, trains and takes what it asked for."""
    with programs.ascpipe():
        try:
            asked = Asked(one_shot)
            for call in calls:
                getattr(asked, call)()
            asked.modify()
            with programs.session() as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for initializer in asked.initializers:
                    session.run(initializer)
                session.run(asked.train)
                for wanted in asked.wanted:
                    session.run(wanted)
                session.run(asked.train)
        except (ValueError, RuntimeError, TypeError, tf.errors.OpError) as error:
            return "refused", "{}: {}".format(type(error).__name__, str(error)[:200])
    return "trained", ""


def _tell(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main():
    for place, calls in enumerate(itertools.product(sys.argv[1:], repeat=2)):
        one_shot = "make_initializer" not in calls and place % 2 == 1
        _tell(calls=calls, one_shot=one_shot)
        end, why = ended(calls, one_shot)
        _tell(calls=calls, one_shot=one_shot, ended=end, why=why)


if __name__ == "__main__":
    main()
