"""Models with ``embedding_lookup``, trained and saved by plain TensorFlow.

::

    python embeddings_by_hand.py FOLDER NAME:USERS...

For each optimizer NAME and number of users, the program trains ``STEPS`` steps, saves ``FOLDER/NAME/model-STEPS``, and
trains ``STEPS`` more. It prints the losses of the later steps by NAME as JSON. Table ``item`` has three parts.
"""
import json
import os
import sys

import numpy as np
import tensorflow as tf

STEPS, BATCH, DIM, ITEMS = 100, 64, 4, 31
RATE = {"Adagrad": 0.3, "Ftrl": 0.3, "Adam": 0.05}


def iterator(users, first):
    """Iterator over the batches from step ``first`` on. Each batch has all users if there are few."""
    random = np.random.RandomState(5)
    ids = random.randint(0, users, (2 * STEPS, BATCH))
    items = random.randint(0, ITEMS, (2 * STEPS, BATCH))
    if users <= 8:  # each batch has all ids, so Adam changes no other rows
        ids[:, :users] = np.arange(users)
        items[:, :ITEMS] = np.arange(ITEMS)
    labels = np.float32((ids + items) % 3 == 0)
    data = tf.data.Dataset.from_tensor_slices({"user": ids[first:], "item": items[first:], "label": labels[first:]})
    return tf.compat.v1.data.make_initializable_iterator(data.prefetch(8))


def loss_of(user_rows, item_rows, label):
    """Loss of a batch, from the looked-up rows."""
    hidden = tf.compat.v1.layers.dense(tf.concat([user_rows, item_rows], 1), 8, tf.nn.relu, name="hidden",
                                       kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=3))
    last = tf.compat.v1.layers.dense(hidden, 1, name="logits", kernel_initializer=tf.ones_initializer())
    logits = tf.squeeze(last, 1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))


def plain_loss(users, batch, parts=3):
    """Loss of a batch with variables. ``item`` has several parts, or is one variable."""
    initializer = tf.compat.v1.random_normal_initializer(stddev=0.3, seed=7)
    with tf.compat.v1.variable_scope("model"):
        user = tf.compat.v1.get_variable("user", [users, DIM], initializer=initializer)
        item = tf.compat.v1.get_variable("item", [ITEMS, DIM], initializer=initializer,
                                         partitioner=tf.compat.v1.fixed_size_partitioner(parts) if parts > 1 else None)
    lookup = tf.compat.v1.nn.embedding_lookup  # that of TensorFlow 2 has the strategy "div"
    return loss_of(lookup(user, batch["user"]), lookup(item, batch["item"]), batch["label"])


def trained(folder, name, users):
    """Train, save in the middle, and return the losses of the later steps."""
    with tf.Graph().as_default():
        batches = iterator(users, 0)
        loss = plain_loss(users, batches.get_next())
        step = tf.compat.v1.train.get_or_create_global_step()
        optimizer = getattr(tf.compat.v1.train, name + "Optimizer")(RATE[name])
        train = optimizer.minimize(loss, step)
        saver = tf.compat.v1.train.Saver()
        with tf.compat.v1.Session() as session:
            session.run([tf.compat.v1.global_variables_initializer(), batches.initializer])
            losses = [float(session.run([loss, train])[0]) for _ in range(STEPS)]
            os.makedirs(os.path.join(folder, name))
            saver.save(session, os.path.join(folder, name, "model"), global_step=step)
            losses += [float(session.run([loss, train])[0]) for _ in range(STEPS)]
    return losses[STEPS:]


if __name__ == "__main__":
    if not tf.__version__.startswith("1."):
        tf.compat.v1.disable_v2_behavior()
    wanted = [each.split(":") for each in sys.argv[2:]]
    sys.stdout.write(json.dumps({name: trained(sys.argv[1], name, int(users)) for name, users in wanted}))
