"""Gradients of several parts of a batch are summed within a step, as docs/how-to/tables_and_variables.md has it.

The peer is a program of TensorFlow that sums gradients over as many steps in variables, and then applies them once.
"""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs
from tests.tf.twin_programs import RATE

v1 = tf.compat.v1
PARTS, SIZE, STEPS = 4, 3, 6
KEYS, DIM = 40, 3
IDS = np.random.RandomState(2).randint(0, KEYS, [STEPS * PARTS * SIZE, 2])
LABELS = np.random.RandomState(3).rand(len(IDS)).astype(np.float32)
FIRST = v1.constant_initializer(0.3)
OPTIMIZERS = {"adagrad": (lambda: asc.optimizers.Adagrad(RATE), lambda: v1.train.AdagradOptimizer(RATE)),
              "gradient_descent": (lambda: asc.optimizers.GradientDescent(1.0),
                                   lambda: v1.train.GradientDescentOptimizer(1.0))}
#: The device holds the keys of all parts of a batch.
TIERS = {"device": {"device_vocabulary_size": 50}, "expansion": {},
         "host": {"device_vocabulary_size": 24, "host_vocabulary_size": 60},
         "disk": {"device_vocabulary_size": 24, "host_vocabulary_size": 25, "ssd_vocabulary_size": 60}}


def loss_of(rows, labels):
    with v1.variable_scope("dense", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
        weights = v1.get_variable("weights", [2 * DIM, 4], initializer=v1.constant_initializer(0.2))
        out = v1.get_variable("out", [4, 1], initializer=v1.constant_initializer(0.5))
    numbers = tf.matmul(tf.sin(tf.matmul(tf.reshape(rows, [-1, 2 * DIM]), weights)), out)
    return tf.reduce_mean(tf.square(numbers[:, 0] - labels))


def accumulated(optimizer, rows, labels, parts):
    """The loss, and an op that trains once by the mean gradient of parts of a batch, one part after the other."""
    losses, sums, of_rows, before = [], [], [], []
    for part, part_labels in zip(tf.split(rows, parts), tf.split(labels, parts)):
        with tf.control_dependencies(before):
            part = tf.identity(part)
        with tf.control_dependencies([part]):
            losses.append(loss_of(part, part_labels) / parts)
        variables = tf.compat.v1.trainable_variables()
        *gradients, of_part = tf.gradients(losses[-1], [*variables, part])
        sums = [tf.add(*pair) for pair in zip(sums, gradients)] if sums else gradients
        of_rows.append(of_part)
        before = [*sums, of_part]
    tables = optimizer.compute_gradients(rows, asc.table_variables(), grad_loss=tf.concat(of_rows, 0))
    return tf.add_n(losses), optimizer.apply_gradients([*zip(sums, variables), *tables])


def ours(kind, tier, folder):
    """Losses of the steps, and rows of all keys at the end."""
    with twin_programs.ascpipe(use_dynamic_expansion=tier == "expansion"):
        disk = {"ssd_data_path": [str(folder)]} if tier == "disk" else {}
        table = asc.create_table("user", DIM, initializer=FIRST, **TIERS[tier], **disk)
        data = tf.data.Dataset.from_tensor_slices({"ids": IDS, "labels": LABELS}).batch(PARTS * SIZE)
        iterator = v1.data.make_initializable_iterator(data.prefetch(4))
        batch = iterator.get_next()
        rows = asc.sparse_lookup(table, batch["ids"])
        loss, train = accumulated(OPTIMIZERS[kind][0](), rows, batch["labels"], PARTS)
        every = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(np.arange(KEYS)))
        final = asc.sparse_lookup(table, every.get_next(), training=False, default_value="initial")
        asc.start()
        return run(iterator, [(loss, train)] * STEPS, final, every)


def plain(kind):
    """The same of TensorFlow: gradients are summed in variables, and applied in every fourth step."""
    with tf.Graph().as_default():
        table = v1.get_variable("user", [KEYS, DIM], initializer=FIRST, use_resource=True)
        data = tf.data.Dataset.from_tensor_slices({"ids": IDS, "labels": LABELS}).batch(SIZE)
        iterator = v1.data.make_initializable_iterator(data)
        batch = iterator.get_next()
        loss = loss_of(tf.nn.embedding_lookup(table, batch["ids"]), batch["labels"]) / PARTS
        variables = v1.trainable_variables()
        sums = [v1.Variable(tf.zeros(each.shape), trainable=False, use_resource=True) for each in variables]
        added = [each.assign_add(tf.convert_to_tensor(gradient)) for each, gradient in zip(
            sums, tf.gradients(loss, variables))]
        with tf.control_dependencies(added):
            gradients = [each.read_value() for each in sums]
        with tf.control_dependencies([OPTIMIZERS[kind][1]().apply_gradients(zip(gradients, variables))]):
            train = tf.group(*(each.assign(tf.zeros_like(each)) for each in sums))
        steps = ([(loss, tf.group(*added))] * (PARTS - 1) + [(loss, train)]) * STEPS
        losses, rows = run(iterator, steps, table.read_value())
        return np.reshape(losses, [STEPS, PARTS]).sum(1), rows


def run(iterator, steps, final, *iterators):
    with tf.compat.v1.Session() as session:
        session.run([iterator.initializer, v1.global_variables_initializer()])
        losses = [session.run(step)[0] for step in steps]
        session.run([each.initializer for each in iterators])
        return losses, session.run(final)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_parts_of_a_batch_are_summed_as_steps_are_in_tensorflow_in_every_tier(kind, tmp_path):
    losses, rows = ours(kind, "host", tmp_path)
    wanted_losses, wanted_rows = plain(kind)
    np.testing.assert_allclose(losses, wanted_losses, rtol=1e-5)
    np.testing.assert_allclose(rows, wanted_rows, rtol=1e-5)
    assert np.abs(wanted_rows - 0.3).max() > 0.01
    for tier in ("device", "disk") if kind == "adagrad" else ("device", "expansion"):
        found = ours(kind, tier, tmp_path)
        assert found[0] == losses
        assert found[1].tobytes() == rows.tobytes()
