"""A training program for any number of ranks. It restores its newest checkpoint.

    ascpipe run --ranks 2:3 --hosts-script SCRIPT --restarts 2 tests/support/programs/resumed_ranks.py FOLDER STEPS

It saves each 5 steps. Each rank prints its number, the number of ranks, the first step and the last one.
"""
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import ascpipe.tf as asc

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
BATCH, KEYS = 16, 100
STEP_S = 0.1  # a step that takes as long as one of a model, so that a test can stop a machine between two saves

tf.compat.v1.disable_eager_execution()
hvd.init()
asc.init()
ids = np.random.RandomState(7 + hvd.rank()).randint(0, KEYS, (4000, BATCH)).astype(np.int64)
iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensor_slices(ids).repeat().prefetch(4))
table = asc.create_table("table", dim=4, device_vocabulary_size=KEYS * 2, average_gradients=True,
                         initializer=tf.compat.v1.ones_initializer())
rows = asc.sparse_lookup(table, iterator.get_next())
weight = tf.compat.v1.get_variable("weight", [4, 1], initializer=tf.compat.v1.ones_initializer())
loss = tf.reduce_mean(tf.square(tf.matmul(rows, weight)))
global_step = tf.compat.v1.train.get_or_create_global_step()
dense = asc.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.01)).minimize(
    loss, global_step=global_step, var_list=[weight])
train = tf.group(dense, asc.optimizers.Adagrad(0.01).minimize(loss, var_list=asc.table_variables()))
asc.start()
saver = tf.compat.v1.train.Saver()
with tf.compat.v1.Session() as session:
    session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
    newest = tf.train.latest_checkpoint(FOLDER)
    if newest:
        saver.restore(session, newest)
    session.run(asc.broadcast_global_variables(0))
    first = last = session.run(global_step)
    while last < STEPS:
        _, last = session.run([train, global_step])
        last = session.run(global_step)
        if last % 5 == 0:
            saver.save(session, FOLDER + "/model.ckpt", global_step=global_step)
        time.sleep(STEP_S)
    sys.stdout.write("rank {} of {} steps {} to {} keys {}\n".format(hvd.rank(), hvd.size(), first, last, table.size()))
asc.shutdown()
