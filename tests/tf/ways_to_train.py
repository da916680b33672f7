"""Ways in which programs make a training op, for ``tests.tf.twin_programs``; each is a function of an optimizer's kind.

Some find the tables of a program, and others leave them out.
"""
import functools

import tensorflow as tf

import ascpipe.tf as asc
from tests.support.contrib import contrib
from tests.support.tensorflows import keras_optimizers
from tests.tf import programs, twin_programs
from tests.tf.twin_programs import RATE, require_equal_or_refused

v1 = tf.compat.v1


def step():
    return v1.train.get_or_create_global_step()


def gates_of(pairs):
    """What waits until all gradients are there."""
    return [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient, _ in pairs
            if gradient is not None]


# ---- ways to make a training op: kind -> function of the model

def minimize(kind):
    return lambda model: model.optimizer(kind).minimize(model.loss)


def minimize_everything(kind):
    return lambda model: model.optimizer(kind).minimize(model.loss, var_list=model.everything())


def in_two_calls(kind):
    def train(model):
        optimizer = model.optimizer(kind)
        return optimizer.apply_gradients(optimizer.compute_gradients(model.loss), step())
    return train


def by_gradients(kind):
    def train(model):
        targets = model.everything()
        gradients = tf.gradients(model.loss, targets)
        if model.is_ours and programs.get_use_dynamic_expansion():
            targets = [*v1.trainable_variables(), *tf.compat.v1.get_collection(programs.ASCEND_SPARSE_LOOKUP_ID_OFFSET)]
        return model.optimizer(kind).apply_gradients(zip(gradients, targets))
    return train


def by_layers(kind):
    return lambda model: contrib("layers").optimize_loss(
        model.loss, step(), RATE, lambda rate: model.optimizer(kind), variables=model.everything())


def of_both(model, kind):
    """One optimizer of two."""
    dense = twin_programs.OPTIMIZERS[kind][1]()
    return asc.Optimizer(dense=dense, sparse=lambda: model.optimizer(kind)) if model.is_ours else dense


def by_layers_of_both(kind):
    return lambda model: contrib("layers").optimize_loss(
        model.loss, step(), RATE, lambda rate: of_both(model, kind), summaries=["gradients", "gradient_norm"])


def by_slim(kind):
    return lambda model: contrib("slim").learning.create_train_op(model.loss, of_both(model, kind))


def by_training(kind):
    return lambda model: contrib("training").create_train_op(
        model.loss, of_both(model, kind), summarize_gradients=True)


def of_tensorflow(make):
    def train(model):
        return make().minimize(model.loss, var_list=model.everything())
    return train


def by_tensorflows(kind):
    return of_tensorflow(twin_programs.OPTIMIZERS[kind][1])


def by_two_optimizers(kind):
    """Variables by the one, tables by the other, as the documents have it."""
    def train(model):
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, model.everything())
        with tf.control_dependencies(gates_of(pairs)):
            if model.is_ours:
                tables = [pair for pair in pairs if pair[1] not in v1.trainable_variables()]
            else:
                tables = [pair for pair in pairs if pair[1] in model.tables.values()]
            dense = [pair for pair in pairs if all(pair is not other for other in tables)]
            return tf.group(v1.train.GradientDescentOptimizer(RATE).apply_gradients(dense),
                            optimizer.apply_gradients(tables))
    return train


def by_both(kind):
    return lambda model: of_both(model, kind).minimize(model.loss)


def in_a_conditional(kind):
    """Nothing is trained in each third step."""
    def train(model):
        count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
        now = count.assign_add(1)
        optimizer = model.optimizer(kind)
        pairs = optimizer.compute_gradients(model.loss, gate_gradients=optimizer.GATE_GRAPH)
        with tf.control_dependencies(gates_of(pairs)):
            return tf.cond(tf.equal(now % 3, 0), tf.no_op, lambda: optimizer.apply_gradients(pairs))
    return train


def minimized_in_a_conditional(kind):
    """The branch of a conditional has the gradients, too."""
    def train(model):
        count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
        now = count.assign_add(1)
        with tf.control_dependencies([model.loss]):
            return tf.cond(tf.equal(now % 3, 0), tf.no_op, lambda: tf.group(
                model.optimizer(kind).minimize(model.loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)))
    return train


def each_by_its_loss(kind):
    """As the two halves of an adversarial model: two losses, and an optimizer for each part of the tables."""
    def train(model):
        pairs = []
        for numbers, name in ((model.of_users, "user"), (model.of_items, "item")):
            place = ("user", "item").index(name)
            optimizer = model.optimizer(kind)
            pairs.append((optimizer, optimizer.compute_gradients(model.loss_of(numbers), [model.variables()[place]])))
        with tf.control_dependencies([gate for _, of_one in pairs for gate in gates_of(of_one)]):
            return tf.group(*(optimizer.apply_gradients(of_one) for optimizer, of_one in pairs))
    return train


def over_ranks(kind):
    def train(model):
        if model.is_ours:
            return asc.DistributedOptimizer(model.optimizer(kind)).minimize(model.loss)
        return model.optimizer(kind).minimize(model.loss)
    return train


TRAIN = [minimize, minimize_everything, in_two_calls, by_gradients, by_layers, by_layers_of_both, by_slim, by_training,
         by_tensorflows, by_two_optimizers, by_both, in_a_conditional, minimized_in_a_conditional, each_by_its_loss,
         over_ranks]


# ---- ways that find no table

def without_tables(kind):
    return lambda model: model.optimizer(kind).minimize(model.loss, var_list=v1.trainable_variables())


def left_in_place(kind):
    return lambda model: twin_programs.OPTIMIZERS[kind][1]().minimize(model.loss)


def momentum_left_in_place(kind):
    return lambda model: v1.train.MomentumOptimizer(RATE, 0.9).minimize(model.loss)


def by_gradients_of_variables(kind):
    def train(model):
        variables = v1.trainable_variables()
        return model.optimizer(kind).apply_gradients(zip(tf.gradients(model.loss, variables), variables), step())
    return train


def by_layers_alone(kind):
    return lambda model: contrib("layers").optimize_loss(model.loss, step(), RATE, lambda rate: model.optimizer(kind))


def by_slim_alone(kind):
    return lambda model: contrib("slim").learning.create_train_op(model.loss, model.optimizer(kind))


def by_training_alone(kind):
    return lambda model: contrib("training").create_train_op(model.loss, model.optimizer(kind))


def by_keras(kind):
    return lambda model: tf.group(keras_optimizers().SGD(RATE).get_updates(model.loss, v1.trainable_variables()))


def by_a_tape(kind):
    def train(model):
        with tf.GradientTape() as tape:
            weights = v1.get_variable("more", [], initializer=v1.ones_initializer(), use_resource=True)
            tape.watch(weights.read_value())
            loss = model.loss_of(weights * (model.of_users + model.of_items))
        (gradient,) = tape.gradient(loss, [weights])
        return model.optimizer(kind).apply_gradients([(gradient, weights)])
    return train


def by_hand(kind):
    def train(model):
        (weights,) = v1.trainable_variables("dense")
        return weights.assign_sub(RATE * tf.gradients(model.loss, weights)[0])
    return train


def one_table_alone(kind):
    return lambda model: model.optimizer(kind).minimize(
        model.loss, var_list=[*v1.trainable_variables("dense"), model.variables()[0]])


def one_table_by_the_wrong_loss(kind):
    """A table is asked for by the loss that does not reach it, and left out by the one that does."""
    def train(model):
        users = model.optimizer(kind).minimize(model.loss_of(model.of_users))
        with tf.control_dependencies([users]):
            return v1.train.GradientDescentOptimizer(RATE).minimize(
                model.loss_of(model.of_items), var_list=v1.trainable_variables("dense"))
    return train


FORGET = [without_tables, left_in_place, momentum_left_in_place, by_gradients_of_variables, by_layers_alone,
          by_slim_alone, by_training_alone, by_keras, by_a_tape, by_hand, one_table_alone, one_table_by_the_wrong_loss]


def name_of(function):
    return function.__name__


@functools.lru_cache(maxsize=None)
def expected(way, kind, frozen):
    return twin_programs.plain(way(kind), frozen=frozen)


def check(way, kind, tier, mode, folder, frozen=None):
    """The rule for one composition; the error that refused it."""
    found = twin_programs.ours(way(kind), tier, mode, folder=folder, frozen=frozen)
    require_equal_or_refused(found, None if found.error else expected(way, kind, tuple(sorted(frozen or ()))))
    return found.error
