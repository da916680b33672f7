"""``lookup_sparse`` beside ``tf.nn.safe_embedding_lookup_sparse``: what differs, and the recipe that removes it."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.tf import twin_programs

v1 = tf.compat.v1
BAGS, KEYS, DIM, STEPS = 16, 30, 3, 6


def drawn():
    """Of each step, ids of which some are -1, weights of which some are not positive, and sizes of bags, with 0."""
    random = np.random.RandomState(3)
    sizes = random.randint(0, 6, [STEPS, BAGS])
    count = sizes.sum()
    ids = np.where(random.rand(count) < 0.3, -1, random.randint(0, KEYS, count))
    weights = np.where(random.rand(count) < 0.3, random.randint(-1, 1, count), random.rand(count) + 0.5)
    return tf.RaggedTensor.from_row_lengths(ids, sizes.ravel()), np.float32(weights)


def valid(batch, combiner):
    """The recipe of docs/how-to/tables.md."""
    kept = batch["tags"].values >= 0
    if combiner != "sum":
        kept = tf.logical_and(kept, batch["weights"].values > 0)
    return {"tags": tf.sparse.retain(batch["tags"], kept), "weights": tf.sparse.retain(batch["weights"], kept)}


def filled(batch, default_id):
    return {"tags": tf.sparse.fill_empty_rows(batch["tags"], tf.constant(default_id, tf.int64))[0],
            "weights": tf.sparse.fill_empty_rows(batch["weights"], tf.constant(1.0))[0]}


def trained(is_ours, combiner, weighted=True, default_id=None):
    """Losses, and the rows at the end, of a program of TensorFlow or of its conversion."""
    with (twin_programs.ascpipe() if is_ours else tf.Graph().as_default()):
        ids, weights = drawn()
        data = tf.data.Dataset.from_tensor_slices({"tags": ids.to_sparse(), "weights": ids.with_values(
            tf.constant(weights)).to_sparse()}).batch(BAGS)
        if is_ours:
            data = data.map(lambda batch: valid(batch, combiner if weighted else "sum"))
            if default_id is not None:
                data = data.map(lambda batch: filled(batch, default_id))
        iterator = v1.data.make_initializable_iterator(data.prefetch(2))
        batch = iterator.get_next()
        first = v1.constant_initializer([0.5, -0.25, 1.0])
        used = batch["weights"] if weighted else None
        if is_ours:
            table = asc.create_table("tags", DIM, initializer=first, device_vocabulary_size=KEYS)
            rows = asc.lookup_sparse(table, batch["tags"], used, combiner=combiner)
        else:
            table = v1.get_variable("tags", initializer=np.float32([[0.5, -0.25, 1.0]] * KEYS), use_resource=False)
            rows = tf.nn.safe_embedding_lookup_sparse(table, batch["tags"], used, combiner, default_id)
        loss = tf.reduce_sum(tf.square(rows * tf.constant([1.0, 2.0, 0.5]) - 0.3))
        train = (asc.optimizers if is_ours else v1.train)
        optimizer = train.Adagrad(0.1) if is_ours else train.AdagradOptimizer(0.1)
        step = optimizer.minimize(loss, gate_gradients=v1.train.Optimizer.GATE_GRAPH)
        if is_ours:
            asc.start()
        with v1.Session() as run:
            run.run([v1.global_variables_initializer(), iterator.initializer])
            losses = [run.run([loss, step])[0] for _ in range(STEPS)]
            return losses, table.read(np.arange(KEYS)).rows if is_ours else run.run(table)


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.parametrize("combiner, weighted, default_id", [
    ("mean", True, None), ("sqrtn", False, None), ("sum", True, None), ("mean", False, 7), ("mean", True, 7)])
def test_the_recipe_of_the_page_trains_like_the_safe_function(combiner, weighted, default_id):
    losses, rows = trained(True, combiner, weighted, default_id)
    wanted, wanted_rows = trained(False, combiner, weighted, default_id)
    assert losses == wanted
    seen = np.abs(rows).any(axis=1)  # ids that did not occur have no row in a table
    assert seen.sum() > KEYS / 2
    np.testing.assert_array_equal(rows[seen], wanted_rows[seen])


@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices")
@pytest.mark.parametrize("combiner", ["mean", "sqrtn"])
def test_bags_whose_weights_add_up_to_zero_are_nan_as_in_tensorflow_1(combiner):
    with twin_programs.ascpipe():
        bags = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 3], tf.int64), [2, 2])
        values = [1.0, -1.0, 2.0] if combiner == "mean" else [0.0, 0.0, 2.0]
        data = tf.data.Dataset.from_tensors({"tags": bags, "weights": tf.SparseTensor(bags.indices, values, [2, 2])})
        iterator = v1.data.make_initializable_iterator(data.prefetch(2))
        batch = iterator.get_next()
        table = asc.create_table("tags", DIM, initializer=v1.zeros_initializer(), device_vocabulary_size=KEYS)
        rows = asc.lookup_sparse(table, batch["tags"], batch["weights"], combiner=combiner, training=False)
        theirs = tf.nn.embedding_lookup_sparse(tf.zeros([KEYS, DIM]), batch["tags"], batch["weights"],
                                               combiner=combiner)
        asc.start()
        with v1.Session() as run:
            run.run(iterator.initializer)
            found, wanted = run.run([rows, theirs])
    assert np.isnan(found[0]).all() and (found[1] == 0).all()
    np.testing.assert_array_equal(wanted, found if IS_TENSORFLOW_1 else np.zeros_like(found))


def test_an_omitted_combiner_is_named_in_one_warning_per_table(caplog):
    with twin_programs.ascpipe():
        bags = tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [1, 1])
        tables = [asc.create_table(name, DIM, initializer=v1.zeros_initializer(), device_vocabulary_size=KEYS)
                  for name in ("tags", "words")]
        for table in [*tables, *tables]:
            asc.lookup_sparse(table, bags, training=False)
        asc.lookup_sparse(tables[0], bags, None, "mean", training=False)
        said = [line for line in caplog.messages if "lookup_sparse of table" in line]
    assert said == ["lookup_sparse of table {!r} adds the rows of a bag, because no combiner is given. "
                    "tf.nn.embedding_lookup_sparse takes the mean. Pass combiner='sum' or combiner='mean'".format(name)
                    for name in ("tags", "words")]


def test_an_omitted_combiner_still_adds_rows():
    with twin_programs.ascpipe():
        bags = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, 2], tf.int64), [1, 2])
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(bags).prefetch(2))
        table = asc.create_table("tags", DIM, initializer=v1.ones_initializer(), device_vocabulary_size=KEYS)
        rows = asc.lookup_sparse(table, iterator.get_next(), training=False)
        asc.start()
        with v1.Session() as run:
            run.run(iterator.initializer)
            np.testing.assert_array_equal(run.run(rows), [[2.0] * DIM])
