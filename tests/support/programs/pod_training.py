"""A training program of a pod: it continues from its newest checkpoint, and trains until ``stop`` is in its folder.

It prints ``from STEP`` and each step. It saves each 20 steps.
"""
import os
import sys
import time

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc

KEYS, BATCH = 200, 32

tf.compat.v1.disable_v2_behavior()
asc.init()
ids = np.random.RandomState(7).randint(0, KEYS, (500, BATCH)).astype(np.int64)
iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(ids).repeat().prefetch(4))
table = asc.create_table("table", dim=8, device_vocabulary_size=KEYS,
                         initializer=tf.compat.v1.zeros_initializer())
loss = tf.reduce_mean(tf.square(asc.sparse_lookup(table, iterator.get_next()) - 1.0))
step = tf.compat.v1.train.get_or_create_global_step()
train = tf.group(asc.optimizers.Adagrad(0.05).minimize(loss, var_list=asc.table_variables()),
                 tf.compat.v1.assign_add(step, 1))
asc.start()
saver = tf.compat.v1.train.Saver()
with tf.compat.v1.Session() as session:
    session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
    newest = tf.train.latest_checkpoint("model")
    if newest:
        saver.restore(session, newest)
    now = session.run(step)
    sys.stdout.write("from {}\n".format(now))
    while not os.path.exists("stop"):
        session.run(train)
        now = session.run(step)
        sys.stdout.write("step {}\n".format(now))
        sys.stdout.flush()
        if now % 20 == 0:
            saver.save(session, "model/base", global_step=step)
        time.sleep(0.02)
asc.shutdown()
