"""The same bags of ids, combined and trained over tables and by ``tf.nn.embedding_lookup_sparse`` over variables."""
import functools
import warnings
from typing import NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import math_ops

import ascpipe.tf as asc
from mx_rec.graph.merge_lookup import do_merge_lookup
from tests.tf import programs
from tests.tf.test_lookup_fusion import ran as count_ops

KEYS = np.concatenate([np.array([-2 ** 63, 2 ** 63 - 1, -1, 0]), np.arange(1, 400) * 7 - 600])
RATE = 0.5
KINDS = {"{} {}".format(*kind): kind for kind in
         [(combiner, weighted) for combiner in ("sum", "mean", "sqrtn") for weighted in ("plain", "weighted")]}


class Bags(NamedTuple):
    """A batch: numbers of the keys of all bags, weights of these, sizes of bags, and a gradient of what they give."""

    numbers: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray
    gradient: np.ndarray


class Outcome(NamedTuple):
    """What was computed: of each step, by kind, the combined rows and the gradient of the weights; rows at the end; how
    many ops there were of each type in the last step."""

    combined: list
    weights: list
    rows: dict
    ops: dict = {}


def random_bags(seed, bags=60, dim=programs.DIM, keys=403, most=40):
    """Bags of up to 40 ids, some of them twice; one in eight and the last two are empty."""
    random = np.random.RandomState(seed)
    sizes = random.randint(1, most + 1, bags) * (random.rand(bags) > 1 / 8)
    sizes[-2:] = 0
    numbers = random.randint(0, keys, sizes.sum())
    repeated = random.rand(len(numbers)) < 0.2
    numbers[1:][repeated[1:]] = numbers[:-1][repeated[1:]]
    return Bags(numbers, (random.rand(len(numbers)) + 0.1).astype(np.float32), sizes,
                random.randn(bags, dim).astype(np.float32))


def dataset(batches, keys=None):
    """A dataset of dicts: ids, weights, places, splits, shape, gradient; without ``keys``, ids are their numbers."""
    def each():
        for batch in batches:
            bag_of = np.repeat(np.arange(len(batch.sizes)), batch.sizes)
            splits = np.concatenate([[0], np.cumsum(batch.sizes)])
            places = np.stack([bag_of, np.arange(len(bag_of)) - splits[bag_of]], axis=1)
            ids = batch.numbers if keys is None else keys[batch.numbers]
            yield {"ids": ids, "weights": batch.weights, "places": places, "splits": splits,
                   "shape": np.array([len(batch.sizes), max(1, batch.sizes.max(initial=0))]),
                   "gradient": batch.gradient}

    floats = ("weights", "gradient")
    return tf.data.Dataset.from_generator(
        each, {key: tf.float32 if key in floats else tf.int64 for key in
               ("ids", "weights", "places", "splits", "shape", "gradient")},
        {"ids": [None], "weights": [None], "places": [None, 2], "splits": [None], "shape": [2],
         "gradient": [None, batches[0].gradient.shape[1]]})


def as_bags(batch, key, form):
    """Values of a batch as a SparseTensor or RaggedTensor."""
    if form == "ragged":
        return tf.RaggedTensor.from_row_splits(batch[key], batch["splits"])
    return tf.SparseTensor(batch["places"], batch[key], batch["shape"])


@functools.lru_cache(maxsize=None)
def first_rows(dim=programs.DIM):
    """Rows with which the keys begin, float32[keys, dim]."""
    with tf.Graph().as_default(), programs.ascpipe():
        table = new_table("first", dim, {"device_vocabulary_size": 1000})
        iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors({"ids": KEYS}))
        rows = asc.sparse_lookup(table, iterator.get_next()["ids"] + 0)
        do_merge_lookup()
        asc.start()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            return run.run(rows)


def new_table(name, dim, tier):
    """A table of the tests, whose rows are random."""
    return asc.create_table(name, dim, initializer=tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11), **tier)


@tf.custom_gradient
def exact_sqrt(values, name=None):
    """Roots to the last bit; those of TensorFlow are approximated, except the last few of a tensor."""
    (roots,) = tf.compat.v1.py_func(lambda array: [np.sqrt(array)], [values], [values.dtype])
    roots.set_shape(values.shape)
    return roots, lambda gradient: 0.5 * gradient / roots


def ours(batches, tier, mode="features", form="sparse", threads=1, max_norm=None, kinds=tuple(KINDS), expands=False):
    """What ``lookup_sparse`` computes: a table for each kind, trained by gradient descent."""
    dim = batches[0].gradient.shape[1]
    with programs.ascpipe(use_dynamic_expansion=expands):
        tables = {kind: new_table(kind.replace(" ", "_"), dim, tier) for kind in kinds}
        specs = {kind: asc.FeatureSpec(kind, table_name=tables[kind].table_name, index_key="bags") for kind in kinds}

        def with_bags(batch):
            return {"bags": as_bags(batch, "ids", form), **batch}

        data = dataset(batches, KEYS).map(with_bags)
        if mode == "features":
            data = data.map(asc.insert_function(list(specs.values())))
        iterator = tf.compat.v1.data.make_initializable_iterator(data.prefetch(2))
        batch = iterator.get_next()
        weights = {kind: tf.identity(batch["weights"]) for kind in kinds}
        combined, pairs, of_weights = {}, [], {}
        for kind in kinds:
            combiner, weighted = KINDS[kind]
            used = as_bags({**batch, "weights": weights[kind]}, "weights", form) if weighted == "weighted" else None
            combined[kind] = asc.lookup_sparse(
                tables[kind], specs[kind] if mode == "features" else batch["bags"], used, combiner, max_norm,
                batch=batch if mode == "features" else None)
        optimizer = asc.optimizers.GradientDescent(RATE)
        given = [batch["gradient"]] * len(kinds)
        trained = [weights[kind] for kind in kinds if KINDS[kind][1] == "weighted"]
        loss = tf.add_n([tf.reduce_sum(combined[kind] * gradient) for kind, gradient in zip(kinds, given)])
        pairs = optimizer.compute_gradients(loss)
        gradients = tf.gradients(loss, trained) if trained else []
        of_weights = dict(zip([kind for kind in kinds if KINDS[kind][1] == "weighted"], gradients))
        # Nothing else makes the update wait for the lookup and the gradients of weights: they do not depend on it.
        with tf.control_dependencies([*combined.values(), *gradients]):
            gated = [(tf.IndexedSlices(tf.identity(g.values), g.indices, g.dense_shape), v) for g, v in pairs]
            train = optimizer.apply_gradients(gated)
        eval_data = tf.data.Dataset.from_tensors({"ids": KEYS}).repeat()
        eval_iterator = tf.compat.v1.data.make_initializable_iterator(eval_data)
        asked = eval_iterator.get_next()["ids"]
        if mode == "features":
            eval_specs = {kind: asc.FeatureSpec(kind, table_name=tables[kind].table_name, index_key="ids")
                          for kind in kinds}
            eval_iterator = tf.compat.v1.data.make_initializable_iterator(
                eval_data.map(asc.insert_function(list(eval_specs.values()), training=False)))
            eval_batch = eval_iterator.get_next()
            rows = {kind: asc.sparse_lookup(tables[kind], eval_specs[kind], batch=eval_batch, training=False)
                    for kind in kinds}
        else:
            rows = {kind: asc.sparse_lookup(tables[kind], asked + 0, training=False) for kind in kinds}
        asc.start()
        with programs.session(inter_op_parallelism_threads=threads, intra_op_parallelism_threads=threads) as run:
            run.run([iterator.initializer, eval_iterator.initializer, tf.compat.v1.global_variables_initializer()])
            ran = [count_ops(run, [combined, of_weights, train]) for _ in batches]
            at_end = run.run(rows)
            sizes = {kind: table.size() for kind, table in tables.items()}
    seen = np.zeros(len(KEYS), bool)
    seen[np.concatenate([batch.numbers for batch in batches])] = True
    assert set(sizes.values()) == {seen.sum()}
    rows = {kind: np.where(seen[:, None], found, first_rows(dim)) for kind, found in at_end.items()}
    return Outcome([found[0] for found, _ in ran], [found[1] for found, _ in ran], rows, ran[-1][1])


def tensorflows(batches, max_norm=None, kinds=tuple(KINDS)):
    """What ``tf.nn.embedding_lookup_sparse`` computes over variables that begin with the same rows."""
    dim = batches[0].gradient.shape[1]
    start = first_rows(dim)
    with tf.Graph().as_default():
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset(batches))
        batch = iterator.get_next()
        combined, of_weights, updates, variables = {}, {}, [], {}
        for kind in kinds:
            combiner, weighted = KINDS[kind]
            variables[kind] = tf.compat.v1.Variable(start, use_resource=False)
            weights = tf.identity(batch["weights"])
            used = as_bags({**batch, "weights": weights}, "weights", "sparse") if weighted == "weighted" else None
            with mock.patch.object(math_ops, "sqrt", exact_sqrt):
                found = tf.nn.embedding_lookup_sparse(variables[kind], as_bags(batch, "ids", "sparse"), used,
                                                      combiner=combiner, max_norm=max_norm)
            loss = tf.reduce_sum(found * batch["gradient"][:tf.shape(found)[0]])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of max_norm: the gradient of unique rows becomes a dense one
                gradients = tf.gradients(loss, [variables[kind], weights])
            combined[kind] = found
            waits = [found]
            if weighted == "weighted":
                of_weights[kind] = gradients[1]
                waits.append(gradients[1])
            with tf.control_dependencies(waits):
                sums = tf.IndexedSlices(tf.identity(gradients[0].values), gradients[0].indices,
                                        gradients[0].dense_shape)
                updates.append(tf.compat.v1.train.GradientDescentOptimizer(RATE).apply_gradients(
                    [(sums, variables[kind])]))
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            steps = [run.run([combined, of_weights, updates])[:2] for _ in batches]
            return Outcome([{kind: padded(found, each.sizes) for kind, found in step[0].items()}
                            for step, each in zip(steps, batches)], [step[1] for step in steps], run.run(variables))


def padded(found, sizes):
    """What TensorFlow gives, with zeros for bags without ids, which it leaves out at the end."""
    whole = np.zeros((len(sizes), found.shape[1]), np.float32)
    whole[:len(found)] = found
    whole[sizes == 0] = 0
    return whole
