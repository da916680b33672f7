"""What a table takes: ids of any shape and kind, padding keys, arguments that matter with several ranks only."""
import functools

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.optimizers import gradient_descent
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import EXPANSION, batch, trained

TIERS = {"device": {}, "host": {"device_vocabulary_size": 8, "host_vocabulary_size": 100}, "disk": on_disk(8, 100),
         "expansion": EXPANSION}


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_int32_and_negative_keys_are_keys(dtype):
    low = int(np.iinfo(dtype).min)
    looked_up, rows, size = trained([batch(-1, low, 3, dtype=dtype), batch(low, 3, 3, dtype=dtype)], [-1, low, 3, 4])
    assert looked_up == [[1, 1, 1], [0, 0, 0]]
    assert (rows, size) == ({-1: 0, low: -1, 3: -2, 4: 0}, 3)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_empty_batches_one_key_and_nothing_but_duplicates(tier):
    looked_up, rows, size = trained([batch(), batch(7), batch(), batch(5, 5, 5, 5), batch(7)], [5, 7], **TIERS[tier])
    assert looked_up == [[], [1], [], [1, 1, 1, 1], [0]]
    assert (rows, size) == ({5: -3, 7: -1}, 2)


def test_ids_have_any_rank_up_to_three():
    shapes = [(), (4,), (2, 2), (2, 1, 2)]
    with programs.ascpipe():
        table = create_table(tf.int64, 2, "t", tf.compat.v1.ones_initializer(), device_vocabulary_size=20)
        specs = [FeatureSpec(str(rank), table_name="t", index_key=str(rank)) for rank in range(len(shapes))]
        data = tf.data.Dataset.from_tensors(
            {str(rank): np.full(shape, rank, np.int64) for rank, shape in enumerate(shapes)}).repeat(2)
        iterator = tf.compat.v1.data.make_initializable_iterator(data.map(get_asc_insert_func(specs)).prefetch(2))
        taken = iterator.get_next()
        rows = [sparse_lookup(table, spec, batch=taken) for spec in specs]
        loss = tf.add_n([tf.reduce_sum(tf.square(each)) for each in rows])
        train = gradient_descent.create_hash_optimizer(0.5).minimize(loss, var_list=[table.variable])
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            first, _ = run.run([rows, train])
            second = run.run(rows)
    for shape, before, after in zip(shapes, first, second):
        assert before.shape == (*shape, 2)
        assert (before == 1).all() and (after == 1 - np.prod(shape)).all()


@pytest.mark.parametrize("lookups", [2, 128])
def test_several_lookups_equal_one_of_all_their_ids(lookups):
    ids = np.random.RandomState(5).randint(0, 9, (3, lookups))
    with programs.ascpipe():
        table = create_table(tf.int64, 2, "t", tf.compat.v1.ones_initializer(), device_vocabulary_size=20)
        specs = [FeatureSpec("f{:03}".format(i), table_name="t", index_key="f{}".format(i)) for i in range(lookups)]
        data = tf.data.Dataset.from_tensor_slices({"f{}".format(i): ids[:, i] for i in range(lookups)}).batch(1)
        iterator = tf.compat.v1.data.make_initializable_iterator(data.map(get_asc_insert_func(specs)).prefetch(4))
        taken = iterator.get_next()
        rows = tf.stack([sparse_lookup(table, spec, batch=taken) for spec in specs])
        loss = tf.reduce_sum(tf.square(rows))
        train = gradient_descent.create_hash_optimizer(0.1).minimize(loss, var_list=[table.variable])
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            losses = [run.run([loss, train])[0] for _ in ids]
    model, expected = np.ones(9), []
    for row in ids:
        expected.append(2 * (model[row] ** 2).sum())
        model -= 0.2 * np.bincount(row, minlength=9) * model
    np.testing.assert_allclose(losses, expected, rtol=1e-4)


OPTIMIZERS = {name: functools.partial(programs.optimizer, name, 0.5) for name in programs.OPTIMIZERS}


PADDED = [batch(0, 5, 6, 0), batch(-1, 6, 0), batch(7, 8, 9, 10, 11, 12), batch(0, -1, 5)]


def with_twos(name, tier, **padding):
    """``trained`` with rows that begin with 2."""
    return trained(PADDED, [0, -1, 5, 6], optimizer=OPTIMIZERS[name],
                   emb_initializer=tf.compat.v1.constant_initializer(2.0), **padding, **TIERS[tier])


@functools.lru_cache(maxsize=None)
def without_padding(name, expansion):
    """Rows at the end; the same in every tier but for the optimizer's form, so that one run is enough."""
    return with_twos(name, "expansion" if expansion else "device")[1]


@pytest.mark.parametrize("name, tier", [
    ("gradient_descent", "device"), ("adagrad", "host"), ("ftrl", "host"), ("lazy_adam", "expansion"),
    *(pytest.param(name, "host", marks=pytest.mark.long) for name in ("gradient_descent", "lazy_adam")),
    *(pytest.param(name, "expansion", marks=pytest.mark.long) for name in ("gradient_descent", "adagrad"))])
def test_rows_of_padding_keys_are_looked_up_and_never_updated(name, tier):
    looked_up, rows, size = with_twos(name, tier, padding_keys=[0, -1], padding_keys_mask=True, padding_keys_len=2)
    unpadded = without_padding(name, tier == "expansion")
    assert looked_up[0] == [2, 2, 2, 2]
    assert (rows[0], rows[-1], size) == (2, 2, 10)
    assert (rows[5], rows[6]) == (unpadded[5], unpadded[6])
    assert unpadded[0] != 2


def test_what_matters_with_several_ranks_only_changes_nothing_with_one():
    kwargs = {"is_dp": True, "all2all_gradients_op": "sum_gradients_and_div_by_ranksize"}
    assert trained([batch(1, 2, 2), batch(2, 3)], [1, 2, 3], **kwargs) == (
        [[1, 1, 1], [-1, 1]], {1: 0, 2: -2, 3: 0}, 3)


def test_init_param_multiplies_the_initial_rows():
    looked_up, _, _ = trained([batch(1, 2), batch(1)], [1], init_param=-2.5)
    assert looked_up == [[-2.5, -2.5], [-3.5]]


class TestSparseIds:
    """A batch of two rows: ids 5 and 6, 6 and none; then 7, 5 and 5."""

    DENSE = [np.array([[5, 6], [6, 0]]), np.array([[7, 0], [5, 5]])]
    THERE = [np.array([[1, 1], [1, 0]], bool), np.array([[1, 0], [1, 1]], bool)]

    def kinds(self, kind, ids, there):
        if kind == "sparse":
            places = tf.where(there)
            return tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, out_type=tf.int64))
        return tf.RaggedTensor.from_tensor(ids, lengths=tf.reduce_sum(tf.cast(there, tf.int64), axis=1))

    def train(self, kind, default=None, optimizer=OPTIMIZERS["adagrad"], mode="features"):
        """Rows that were looked up, and at the end those of the keys 5, 6, 7, in training and in evaluation."""
        modify_graph = mode == "tensors"
        with programs.ascpipe(use_dynamic_expansion=mode == "expansion"):
            table = create_table(tf.int64, 2, "t", tf.compat.v1.random_normal_initializer(seed=3),
                                 device_vocabulary_size=20)
            rows, iterators = [], []
            for training in (True, False):
                spec = FeatureSpec("ids", table_name="t", index_key="ids")
                other = FeatureSpec("other", table_name="t", index_key="other")
                data = tf.data.Dataset.from_tensor_slices((np.stack(self.DENSE), np.stack(self.THERE))).map(
                    lambda ids, there: {"ids": ids if kind == "dense" else self.kinds(kind, ids, there),
                                        "other": tf.constant([5, 6, 7], tf.int64)})
                if not modify_graph:
                    data = data.map(get_asc_insert_func([spec, other], is_training=training))
                iterators.append(tf.compat.v1.data.make_initializable_iterator(data.prefetch(2)))
                taken = iterators[-1].get_next()
                lookups = [sparse_lookup(table, taken[s.index_key] if modify_graph else s, batch=taken,
                                         modify_graph=modify_graph, is_train=training, serving_default_value=d)
                           for s, d in ((other, None), (spec, default))]
                assert lookups[1].shape.as_list()[-1] == 2
                rows.append(lookups)
            there = np.float32(self.THERE)[..., None]
            step = tf.compat.v1.placeholder(tf.int32, [])
            loss = tf.reduce_sum(tf.square(rows[0][1]) * tf.gather(there, step)) + 0.1 * tf.reduce_sum(rows[0][0])
            do_merge_lookup()
            trained_rows, (target,) = programs.trained(table)
            train = optimizer().apply_gradients([(tf.gradients(loss, trained_rows)[0], target)])
            (modify_graph_and_start_emb_cache if modify_graph else start_asc_pipeline)()
            with programs.session() as run:
                run.run([*(iterator.initializer for iterator in iterators),
                         tf.compat.v1.global_variables_initializer()])
                trained = [run.run([rows[0][1], loss, train], {step: i})[:2] for i in range(2)]
                return trained, [run.run(rows[1]) for _ in range(2)]

    @pytest.mark.parametrize("kind, mode", [
        ("sparse", "features"), ("sparse", "expansion"), ("ragged", "tensors"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [("ragged", "features"), ("sparse", "tensors")])])
    def test_they_give_and_train_what_dense_ids_do_and_zeros_where_there_are_none(self, kind, mode):
        (trained, read), (dense_trained, dense_read) = (
            trained_by_descent(k, mode) for k in (kind, "dense"))
        for place, there in enumerate(self.THERE):
            for ours, theirs in ((trained[place][0], dense_trained[place][0]), (read[place][1], dense_read[place][1])):
                np.testing.assert_array_equal(ours[there], theirs[there])
                assert (ours[~there] == 0).all()
            assert trained[place][1] == dense_trained[place][1]
            np.testing.assert_array_equal(read[place][0], dense_read[place][0])

    @pytest.mark.parametrize("kind, mode", [("sparse", "features"), ("ragged", "features"), ("sparse", "expansion"),
                                            ("sparse", "tensors")])
    def test_a_default_row_stands_where_there_are_none(self, kind, mode):
        trained, read = self.train(kind, default=[0.5, 0.25], mode=mode)
        for rows, there in zip([trained[0][0], trained[1][0], read[0][1], read[1][1]], self.THERE * 2):
            assert (rows[~there] == [[0.5, 0.25]]).all()
            assert (rows[there] != [[0.5, 0.25]]).all()


@functools.lru_cache(maxsize=None)
def trained_by_descent(kind, mode):
    """The same every time, so that one run is enough."""
    return TestSparseIds().train(kind, optimizer=OPTIMIZERS["gradient_descent"], mode=mode)
