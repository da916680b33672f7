"""Ways to make a training op, and changes of gradients, for ``tests.tf.front_doors``."""
import tensorflow as tf

from tests.support.contrib import contrib
from tests.support.tensorflows import keras_optimizers
from tests.tf import test_gradients_of_tables as gradients
from tests.tf import test_ops_on_gradients as ops
from tests.tf.twin_programs import RATE

v1 = tf.compat.v1


def of_table(change):
    """A change of the gradient of the table, as a change of all pairs."""
    return lambda model, pairs: [
        (change(gradients.Gradient(gradient, model.target)) if target is model.target else gradient, target)
        for gradient, target in pairs]


def of_all(change):
    return lambda model, pairs: change(pairs)


LINEAR = {each.__name__: of_table(each) for each in gradients.LINEAR}
LINEAR.update({each.__name__: of_all(each) for each in (ops.halved, ops.negated_twice)})
NOT_LINEAR = {each.__name__: of_table(each) for each in [
    *gradients.NOT_LINEAR, gradients.in_a_conditional, gradients.densified_and_taken_again]}
NOT_LINEAR.update({each.__name__: of_all(each) for each in (
    ops.by_norm, ops.by_the_norm_of_each_row, ops.by_value, ops.by_average_norm, ops.by_sign, ops.by_global_norm,
    ops.scaled_by_its_largest_number, ops.with_a_norm_in_a_conditional, ops.skipped_where_a_norm_is_large)})
#: Gradients that are dense, that are kept, and whose indices are used as ids.
REFUSED = {each.__name__: of_table(each) for each in [
    *gradients.MADE_DENSE, *gradients.OUTLIVING, *gradients.TAKEN_FOR_IDS]}
CHANGES = {**LINEAR, **NOT_LINEAR, **REFUSED}


# ---- ways

def step():
    return v1.train.get_or_create_global_step()


def minimize(model):
    """Users of ``mx_rec`` pass both lists of ``get_dense_and_sparse_variable``."""
    if model.api == "mx_rec":
        return model.optimizer().minimize(model.loss, var_list=model.everything())
    if model.api == "ascpipe.tf" and model.program.owner == "tensorflow":
        return model.optimizer().minimize(model.loss, var_list=model.everything())
    return model.optimizer().minimize(model.loss)


def in_two_calls(model):
    optimizer = model.optimizer()
    pairs = optimizer.compute_gradients(model.loss, model.everything(), gate_gradients=optimizer.GATE_GRAPH)
    return optimizer.apply_gradients(model.changed(pairs), step())


def by_gradients(model):
    variables = model.everything()
    return model.optimizer().apply_gradients(model.changed(zip(tf.gradients(model.loss, variables), variables)))


def by_two_optimizers(model):
    """Variables by the one, the table by the other, as programs of Rec SDK have it."""
    optimizer = model.optimizer()
    pairs = optimizer.compute_gradients(model.loss, model.everything(), gate_gradients=optimizer.GATE_GRAPH)
    pairs = model.changed(pairs)
    tables = [pair for pair in pairs if pair[1] is model.target]
    dense = [pair for pair in pairs if pair[1] is not model.target]
    return tf.group(v1.train.GradientDescentOptimizer(RATE).apply_gradients(dense), optimizer.apply_gradients(tables))


def by_optimize_loss(model):
    return contrib("layers").optimize_loss(model.loss, step(), RATE, lambda rate: model.optimizer(),
                                           variables=model.everything())


def by_optimize_loss_with_clips(model):
    return contrib("layers").optimize_loss(model.loss, step(), RATE, lambda rate: model.optimizer(),
                                           variables=model.everything(), clip_gradients=0.1)


def by_a_clipping_optimizer(model):
    return contrib("estimator").clip_gradients_by_norm(model.optimizer(), 0.02).minimize(
        model.loss, var_list=model.everything())


def by_both(model):
    return model.of_both().minimize(model.loss)


def by_optimize_loss_of_both(model):
    return contrib("layers").optimize_loss(model.loss, step(), RATE, lambda rate: model.of_both())


def by_slim_of_both(model):
    return contrib("slim").learning.create_train_op(model.loss, model.of_both())


def by_training_of_both(model):
    return contrib("training").create_train_op(model.loss, model.of_both())


def in_a_conditional(model):
    """Nothing is trained in each third step."""
    count = v1.get_variable("count", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
    now = count.assign_add(1)
    optimizer = model.optimizer()
    pairs = optimizer.compute_gradients(model.loss, model.everything(), gate_gradients=optimizer.GATE_GRAPH)
    gates = [each.values if isinstance(each, tf.IndexedSlices) else each for each, _ in pairs if each is not None]
    with tf.control_dependencies(gates):
        return tf.cond(tf.equal(now % 3, 0), tf.no_op, lambda: optimizer.apply_gradients(pairs))


def by_trainable_variables(model):
    return model.optimizer().minimize(model.loss, var_list=v1.trainable_variables())


def by_gradients_of_trainable_variables(model):
    variables = v1.trainable_variables()
    return model.optimizer().apply_gradients(zip(tf.gradients(model.loss, variables), variables))


def by_optimize_loss_alone(model):
    return contrib("layers").optimize_loss(model.loss, step(), RATE, lambda rate: model.optimizer())


def by_slim_alone(model):
    return contrib("slim").learning.create_train_op(model.loss, model.optimizer())


def of_dense_variables(model):
    return model.optimizer().minimize(model.loss, var_list=[model.weights])


def of_dense_variables_by_hand(model):
    return model.weights.assign_sub(RATE * tf.gradients(model.loss, model.weights)[0])


def by_keras(model):
    return tf.group(keras_optimizers().SGD(RATE).get_updates(model.loss, v1.trainable_variables()))


def without_updates(model):
    return None


def of_gradients_alone(model):
    return [each for each in tf.gradients(model.loss, model.everything()) if each is not None]


def with_moving_averages(model):
    with tf.control_dependencies([minimize(model)]):
        return tf.train.ExponentialMovingAverage(0.9).apply(model.everything())


def names_of(*functions):
    return [each.__name__ for each in functions]


WAYS = {each.__name__: each for each in [
    minimize, in_two_calls, by_gradients, by_two_optimizers, by_optimize_loss, by_optimize_loss_with_clips,
    by_a_clipping_optimizer, by_both, by_optimize_loss_of_both, by_slim_of_both, by_training_of_both, in_a_conditional,
    by_trainable_variables, by_gradients_of_trainable_variables, by_optimize_loss_alone, by_slim_alone,
    of_dense_variables, of_dense_variables_by_hand, by_keras, without_updates, of_gradients_alone,
    with_moving_averages]}
CHANGING = names_of(in_two_calls, by_gradients, by_two_optimizers)  #: ways that change gradients
CLIPPING = names_of(by_optimize_loss_with_clips, by_a_clipping_optimizer)
#: Ways that take variables from ``tf.trainable_variables()`` alone.
OF_TRAINABLE = names_of(by_trainable_variables, by_gradients_of_trainable_variables, by_optimize_loss_alone,
                        by_slim_alone)
#: Ways that TensorFlow refuses if a variable has no gradient.
WITHOUT_FROZEN = names_of(by_two_optimizers, by_keras)
