"""Ids of a batch that change after the insert function: the lookup of a FeatureSpec would return rows of other ids."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import FeatureError
from mx_rec.core.asc import get_asc_insert_func
from mx_rec.core.embedding import sparse_lookup
from tests.tf import programs, twin_programs

v1 = tf.compat.v1
IDS = np.arange(48).reshape(24, 2) % 7
KEPT = {
    "nothing": lambda batch: batch,
    "identity": lambda batch: {**batch, "user": tf.identity(batch["user"])},
    "reshape": lambda batch: {**batch, "user": tf.reshape(batch["user"], [-1, 2])},
    "cast": lambda batch: {**batch, "user": tf.cast(batch["user"], tf.int32)},
    "labels": lambda batch: {**batch, "label": 1 - batch["label"]},
}
CHANGED = {
    "mod": lambda batch: {**batch, "user": batch["user"] % 3},
    "where": lambda batch: {**batch, "user": tf.where(batch["user"] > 3, tf.zeros_like(batch["user"]), batch["user"])},
    "reverse": lambda batch: {**batch, "user": batch["user"][:, ::-1]},
    "other": lambda batch: {**batch, "user": batch["item"]},
}


def losses(change_data=KEPT["nothing"], change_batch=KEPT["nothing"], *, is_ours=True, wrap=lambda dataset: dataset):
    """Losses of a few steps; ``change_data`` is mapped after the insert function."""
    data = tf.data.Dataset.from_tensor_slices(
        {"user": IDS, "item": IDS[::-1].copy(), "label": np.float32(np.arange(24) % 2)}).batch(4)
    specs = [asc.FeatureSpec("user"), asc.FeatureSpec("item", table_name="user")]
    if is_ours:
        data = data.map(asc.insert_function(specs))
    iterator = v1.data.make_initializable_iterator(wrap(data.map(change_data)).prefetch(2))
    batch = change_batch(dict(iterator.get_next()))
    if is_ours:
        table = asc.create_table("user", 3, device_vocabulary_size=20, initializer=v1.constant_initializer(0.5))
        user, item = (asc.sparse_lookup(table, spec, batch=batch) for spec in specs)
        optimizer = asc.optimizers.Adagrad(0.1)
    else:
        table = v1.get_variable("user", [7, 3], initializer=v1.constant_initializer(0.5))
        user, item = (tf.nn.embedding_lookup(table, batch[name]) for name in ("user", "item"))
        optimizer = v1.train.AdagradOptimizer(0.1)
    scores = tf.reduce_sum(user * [[[1.0], [0.5]]], [1, 2]) - tf.reduce_sum(item, [1, 2])
    loss = tf.reduce_mean(tf.square(scores - batch["label"]))
    train = optimizer.minimize(loss)
    if is_ours:
        asc.start()
    with programs.session() as run:
        run.run([iterator.initializer, v1.global_variables_initializer()])
        return [run.run([loss, train])[0] for _ in range(5)]


def ours(**given):
    with twin_programs.ascpipe():
        return losses(**given)


def plain(**given):
    with tf.Graph().as_default():
        return losses(is_ours=False, **given)


@pytest.mark.parametrize("where", ["change_data", "change_batch"])
@pytest.mark.parametrize("kind", KEPT)
def test_ids_that_keep_their_values_are_looked_up_as_in_tensorflow(kind, where):
    given = {where: KEPT[kind]}
    np.testing.assert_allclose(ours(**given), plain(**given), rtol=1e-5)


@pytest.mark.parametrize("wrap", [
    lambda dataset: tf.data.Dataset.zip((tf.data.Dataset.range(9), dataset)).map(lambda _, batch: batch),
    lambda dataset: dataset.take(3).concatenate(dataset.skip(3)), lambda dataset: dataset.filter(lambda batch: True)],
    ids=["zip", "concatenate", "filter"])
def test_stages_after_the_insert_function_keep_the_ids(wrap):
    np.testing.assert_allclose(ours(wrap=wrap), plain(wrap=wrap), rtol=1e-5)


@pytest.mark.parametrize("where, reason", [
    ("change_data", "because the dataset changes them after the insert function"),
    ("change_batch", r"because (op '.*' \(.*\) changes them after get_next\(\)|the dataset changes)")])
@pytest.mark.parametrize("kind", CHANGED)
def test_ids_that_change_after_the_insert_function_are_refused(kind, where, reason):
    with pytest.raises(FeatureError, match="E265: FeatureSpec 'user': the batch= of a lookup has other ids.*" + reason):
        ours(**{where: CHANGED[kind]})


def test_one_of_two_concatenated_datasets_may_not_change_the_ids():
    with pytest.raises(FeatureError, match="E265: FeatureSpec 'user': .*the dataset changes them"):
        ours(wrap=lambda dataset: dataset.take(3).concatenate(dataset.skip(3).map(CHANGED["mod"])))


@pytest.mark.parametrize("form", ["sparse", "ragged"])
@pytest.mark.parametrize("changes", [False, True])
def test_sparse_and_ragged_ids_are_compared_in_the_graph(form, changes):
    def shape(batch):
        found = tf.RaggedTensor.from_row_lengths(tf.reshape(batch["user"], [-1]), tf.fill([4], 2))
        return {**batch, "user": found if form == "ragged" else found.to_sparse()}

    with twin_programs.ascpipe():
        data = tf.data.Dataset.from_tensor_slices({"user": IDS}).batch(4).map(shape)
        spec = asc.FeatureSpec("user")
        iterator = v1.data.make_initializable_iterator(data.map(asc.insert_function(spec)).prefetch(2))
        batch = dict(iterator.get_next())
        if changes and form == "ragged":
            batch["user"] = batch["user"].with_values(batch["user"].values % 3)
        elif changes:
            batch["user"] = tf.SparseTensor(
                batch["user"].indices, batch["user"].values % 3, batch["user"].dense_shape)
        table = asc.create_table("user", 3, initializer=v1.zeros_initializer(), device_vocabulary_size=20)
        if changes:
            with pytest.raises(FeatureError, match=r"E265: .* changes them after get_next\(\)"):
                asc.lookup_sparse(table, spec, combiner="mean", batch=batch)
        else:
            asc.lookup_sparse(table, spec, combiner="mean", batch=batch)


def changed(batch):
    return {**batch, "user": batch["user"] % 3}


def test_a_program_of_the_incumbent_is_warned_of_changed_ids(caplog):
    with programs.ascpipe():
        table = programs.table("user")
        spec = programs.FeatureSpec("user")
        data = tf.data.Dataset.from_tensor_slices({"user": IDS}).batch(4)
        data = data.map(get_asc_insert_func([spec], is_training=True)).map(changed)
        batch = v1.data.make_initializable_iterator(data).get_next()
        for _ in range(2):
            sparse_lookup(table, spec, batch=batch)
    (line,) = [line for line in caplog.messages if "has other ids" in line]
    assert "FeatureSpec 'user'" in line
