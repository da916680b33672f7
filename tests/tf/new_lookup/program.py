"""A user's program that looks up the weighted average of two tables, and the same over variables of TensorFlow.

As a script, it trains the tables and prints the results as JSON. It needs sources to which ``weighted_average.patch``
was applied, because the product has no such lookup.
"""
import collections
import json
import sys

import numpy as np
import tensorflow as tf

STEPS, BATCH, KEYS, DIM = 20, 12, 15, 8
SHARE, RATE = 0.3, 0.5
FIRST = {"a": 0.5, "b": -0.25}  #: what each row begins with


def batch_of(initialized):
    """The tensors of a batch: one more than there are steps. ``initialized``: takes the iterator's initializer."""
    random = np.random.RandomState(5)
    data = tf.data.Dataset.from_tensor_slices({
        "ids": random.randint(0, KEYS, (STEPS + 1, BATCH)),
        "target": random.rand(STEPS + 1, BATCH, DIM).astype(np.float32)})
    iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(4))
    initialized.append(iterator.initializer)
    return iterator.get_next()


def loss_of(rows, batch):
    return tf.reduce_sum(tf.square(tf.sigmoid(rows) - batch["target"]))


def session():
    """One thread, and graphs that run as they were built: two programs are compared bit by bit."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(config=config)


def sorted_rows(values):
    """Rows in an order that does not depend on where they were."""
    return sorted(np.asarray(values).tolist())


def found(results):
    loss, gradients, _ = results[:3]
    return {"loss": float(loss), "gradients": [sorted_rows(each) for each in gradients]}


def over_variables():
    """Losses and gradients, summed for each row, of each step over variables."""
    initializers = []
    with tf.Graph().as_default():
        batch = batch_of(initializers)
        variables = [tf.compat.v1.get_variable(name, [KEYS, DIM], initializer=tf.compat.v1.constant_initializer(first),
                                               use_resource=False) for name, first in FIRST.items()]
        a, b = [tf.gather(variable, batch["ids"]) for variable in variables]
        share = tf.constant(SHARE)
        loss = loss_of(share * a + (1 - share) * b, batch)
        keys, places = tf.unique(batch["ids"])
        gradients = [tf.math.unsorted_segment_sum(each.values, places, tf.size(keys))
                     for each in tf.gradients(loss, variables)]
        with tf.control_dependencies(gradients):
            updates = [tf.compat.v1.scatter_sub(variable, keys, RATE * gradient)
                       for variable, gradient in zip(variables, gradients)]
        with session() as run:
            run.run([tf.compat.v1.global_variables_initializer(), *initializers])
            return [found(run.run([loss, gradients, updates])) for _ in range(STEPS + 1)]


def over_tables():
    """The same over tables, and the ops of a usual step and of the last one, which also fetches rows of one table."""
    import ascpipe.tf as asc

    initializers = []
    asc.init()
    try:
        batch = batch_of(initializers)
        a, b = [asc.create_table(name, DIM, initializer=tf.compat.v1.constant_initializer(first),
                                 device_vocabulary_size=KEYS) for name, first in FIRST.items()]
        loss = loss_of(asc.sparse_lookup(a, batch["ids"], average=(SHARE, b)), batch)
        optimizer = asc.optimizers.GradientDescent(RATE)
        pairs = optimizer.compute_gradients(loss, asc.table_variables())
        fetches = [loss, [gradient.values for gradient, _ in pairs], optimizer.apply_gradients(pairs)]
        asc.start()
        with session() as run:
            run.run([tf.compat.v1.global_variables_initializer(), *initializers])
            steps = [ran(run, fetches) for _ in range(STEPS)]
            lookup = next(op for op in run.graph.get_operations() if op.type == "AscLookup")
            steps.append(ran(run, [*fetches, lookup.outputs[0]]))
    finally:
        asc.shutdown()
    return {"steps": [step for step, _ in steps], "usual": steps[0][1], "apart": steps[-1][1]}


def ran(run, fetches):
    """What a step found, and how many ops of each type of ascpipe it had."""
    metadata = tf.compat.v1.RunMetadata()
    results = run.run(fetches, options=tf.compat.v1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    types = [node.op for graph in metadata.partition_graphs for node in graph.node]
    return found(results), collections.Counter(each for each in types if each.startswith("Asc"))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(over_tables()))
