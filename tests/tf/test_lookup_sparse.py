"""``lookup_sparse`` computes what ``tf.nn.embedding_lookup_sparse`` does."""
import functools

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import CombinerError
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import combined, programs
from tests.tf.combined import KINDS

TIERS = {"device": {"device_vocabulary_size": 1000},
         "host": {"device_vocabulary_size": 400, "host_vocabulary_size": 1000}, "disk": on_disk(400, 1000),
         "expansion": {}}
BATCHES = [combined.random_bags(seed) for seed in range(4)]

@functools.lru_cache(maxsize=None)
def expected(max_norm=None):
    return combined.tensorflows(BATCHES, max_norm)


def require_equal(ours, theirs, batches):
    for step, batch in enumerate(batches):
        for kind in KINDS:
            assert (ours.combined[step][kind][batch.sizes == 0] == 0).all()
            np.testing.assert_array_equal(ours.combined[step][kind], theirs.combined[step][kind], err_msg=kind)
            if kind in theirs.weights[step]:
                np.testing.assert_array_equal(ours.weights[step][kind], theirs.weights[step][kind], err_msg=kind)
    for kind in KINDS:
        np.testing.assert_array_equal(ours.rows[kind], theirs.rows[kind], err_msg=kind)


def require_fused(ops):
    """Of all tables one op looks up and one sums, and nothing in the step has a row for each id."""
    assert (ops["AscRead"], ops["AscSum"], ops["AscCombineWeightsGrad"]) == (1, 1, 3)
    assert "AscCombine" not in ops
    assert not {"AscLookup", "AscRestoreRows", "AscLookupGrad", "AscCombineRowsGrad"} & set(ops)


@pytest.mark.parametrize("mode", ["features", "tensors"])
@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.timeout_s(120)
@pytest.mark.each_value
def test_combined_rows_their_gradients_and_those_of_weights_are_tensorflow_s(tier, mode):
    ours = combined.ours(BATCHES, TIERS[tier], mode, expands=tier == "expansion")
    require_equal(ours, expected(), BATCHES)
    require_fused(ours.ops)


@pytest.mark.parametrize("mode", ["features", "tensors"])
def test_bags_of_ragged_ids_are_those_of_sparse_ones(mode):
    require_equal(combined.ours(BATCHES, TIERS["device"], mode, form="ragged", threads=2), expected(), BATCHES)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.timeout_s(120)
def test_rows_that_are_too_long_are_cut_on_every_tier(tier):
    ours = combined.ours(BATCHES, TIERS[tier], max_norm=0.5, threads=2, expands=tier == "expansion")
    require_equal(ours, expected(0.5), BATCHES)
    require_fused(ours.ops)
    assert not np.array_equal(expected(0.5).combined[0]["sum plain"], expected().combined[0]["sum plain"])


def test_large_batches_are_summed_by_several_threads_with_the_same_bits():
    batches = [combined.random_bags(seed, bags=600, dim=16) for seed in range(2)]
    ours = combined.ours(batches, TIERS["device"], threads=2)
    require_equal(ours, combined.tensorflows(batches), batches)


class TestRefusals:
    """What cannot be combined is refused where the lookup is made."""

    @pytest.fixture
    def table(self):
        with programs.ascpipe():
            yield combined.new_table("t", 4, TIERS["device"])

    @staticmethod
    def sparse(values, rank=2, count=2):
        return tf.SparseTensor(tf.zeros([count, rank], tf.int64), values, tf.ones([rank], tf.int64))

    @staticmethod
    def ragged(values):
        return tf.RaggedTensor.from_row_splits(values, [0, 1, 2])

    IDS = np.array([1, 2])
    WEIGHTS = np.array([.5, 1], np.float32)
    WRONG = {
        "dense ids": (r"ids are a dense Tensor; expected a SparseTensor", lambda c: (tf.constant(c.IDS), None)),
        "no ids at all": (r"ids are int; expected a SparseTensor", lambda c: (3, None)),
        "rank 3": (r"ids have rank 3; expected 2.*tf.sparse.reshape", lambda c: (c.sparse(c.IDS, 3), None)),
        "ragged bags of bags": (r"ids have rank 3", lambda c: (
            tf.RaggedTensor.from_row_splits(c.ragged(c.IDS), [0, 2]), None)),
        "dense weights": (r"weights are a dense Tensor", lambda c: (c.sparse(c.IDS), tf.constant(c.WEIGHTS))),
        "weights of rank 3": (r"weights have rank 3", lambda c: (c.sparse(c.IDS), c.sparse(c.WEIGHTS, 3))),
        "weights of double length": (r"weights have dtype float64; expected float32. .*tf.cast\(\)",
                                     lambda c: (c.sparse(c.IDS), c.sparse(np.float64(c.WEIGHTS)))),
        "weights that are integers": (r"weights have dtype int64", lambda c: (c.sparse(c.IDS), c.sparse(c.IDS))),
        "more weights than ids": (r"there are weights \(3,\) for ids \(2,\)", lambda c: (
            c.sparse(c.IDS), c.sparse(np.float32([1, 2, 3]), count=3))),
        "another form": (r"weights are a RaggedTensor, but ids are a SparseTensor", lambda c: (
            c.sparse(c.IDS), c.ragged(c.WEIGHTS))),
    }

    @pytest.mark.parametrize("what", WRONG)
    def test_ids_and_weights_that_are_no_bags(self, table, what):
        said, give = self.WRONG[what]
        ids, weights = give(self)
        with pytest.raises(CombinerError, match="E250: lookup_sparse of table 't': " + said) as caught:
            asc.lookup_sparse(table, ids, weights, "sum")
        assert isinstance(caught.value, ValueError)

    @pytest.mark.parametrize("combiner, max_norm, said", [
        ("max", None, "combiner is 'max'; expected one of 'sum', 'mean', 'sqrtn'"), (0, None, "combiner is 0"),
        (["sum"], None, r"combiner is \['sum'\]"), ("sum", 0, "max_norm is 0; expected None or a number above 0"),
        ("sum", float("nan"), "max_norm is nan"), ("sum", "1", "max_norm is '1'"), ("sum", True, "max_norm is True")])
    def test_combiners_and_norms_that_there_are_not(self, table, combiner, max_norm, said):
        with pytest.raises(CombinerError, match=said):
            asc.lookup_sparse(table, self.sparse(self.IDS), None, combiner, max_norm)

    def test_a_feature_that_is_dense_in_the_batch(self, table):
        spec = asc.FeatureSpec("ids", table_name="t")
        with pytest.raises(CombinerError, match="the ids of FeatureSpec 'ids' are a dense Tensor in the batch"):
            asc.lookup_sparse(table, spec, combiner="sum", batch={"ids": tf.constant([[1]])})
        with pytest.raises(RuntimeError, match=r"FeatureSpec 'ids' was passed to .*lookup_sparse\(\) without batch="):
            asc.lookup_sparse(table, spec, combiner="sum")
        with pytest.raises(KeyError, match="no 'ids'"):
            asc.lookup_sparse(table, spec, combiner="sum", batch={"other": tf.constant([[1]])})

    @pytest.mark.parametrize("first", ["bags", "places"])
    def test_a_feature_that_is_looked_up_both_ways(self, table, first):
        spec = asc.FeatureSpec("ids", table_name="t")
        data = combined.dataset(BATCHES).map(lambda batch: {"ids": combined.as_bags(batch, "ids", "sparse")})
        iterator = tf.compat.v1.data.make_initializable_iterator(data.map(asc.insert_function(spec)))
        batch = iterator.get_next()
        both = [lambda: asc.lookup_sparse(table, spec, combiner="sum", batch=batch),
                lambda: asc.sparse_lookup(table, spec, batch=batch)]
        for look_up in both[:1] if first == "bags" else both[1:]:
            look_up()
        with pytest.raises(CombinerError, match=r"FeatureSpec\(another name, index_key='ids'\)"):
            for look_up in both:
                look_up()
