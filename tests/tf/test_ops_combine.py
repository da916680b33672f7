"""The ops that combine bags: values at any dim and number of threads, of rows of a table and of positions; errors."""
import collections
import warnings
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import math_ops

from ascpipe.tf.running import native
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.tf import combined, programs

ROWS = 300
Case = collections.namedtuple("Case", "dim batch table")
Sums = collections.namedtuple("Sums", "values indices")


def case(dim, bags=400, seed=0, most=30):
    batch = combined.random_bags(seed, bags=bags, dim=dim, keys=ROWS, most=most)
    random = np.random.RandomState(seed + 1)
    return Case(dim, batch, random.randn(ROWS, dim).astype(np.float32))


def splits_of(batch):
    return np.concatenate([[0], np.cumsum(batch.sizes)])


def fed(run, build, **arrays):
    """What ops give of tensors that the graph does not know."""
    with tf.Graph().as_default():
        tensors = {name: tf.compat.v1.placeholder(value.dtype, [None] * (value.ndim - 1) + list(value.shape[-1:]))
                   if value.ndim == 2 else tf.compat.v1.placeholder(value.dtype, [None] * value.ndim)
                   for name, value in arrays.items()}
        fetches = build(**tensors)
        with programs.session(inter_op_parallelism_threads=run, intra_op_parallelism_threads=run) as session:
            return session.run(fetches, {tensors[name]: value for name, value in arrays.items()})


def restore_of(numbers, seed=3):
    """Slots of the distinct ids in order of appearance, and the index into them."""
    distinct, first, index = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return distinct[order].astype(np.int32), number[index].astype(np.int32)


def rows_of_bags(rows, slots, restore, default_row, splits, weights, *, combiner, max_norm=0.0):
    """``asc_read`` of one feature, whose rows are combined."""
    (found,) = native.ops().asc_read(
        [rows], [slots], [default_row], [restore], [splits], weights, [], tables=[-1], sources=[0], bags=[0],
        weighted=[0 if weights else -1], combiners=[combiner], max_norms=[max_norm], order=[0], pieces=[1], o=1)
    return found


def sum_of_table(rows, slots, restore, grads, splits, weights, *, dim, partial=False, **attributes):
    """``asc_sum`` of one table, with a gradient for each feature."""
    count = len(restore)
    values, indices = native.ops().asc_sum(
        rows, [slots], restore, grads, splits, weights, dims=[dim], partial=[partial],
        rows_of=[0 if rows else -1], tables=[0] * count, sources=list(range(count)), columns=[-1] * count, **attributes)
    return Sums(values[0], indices[0])


def ours(threads, given, combiner, weighted, max_norm, is_in_table=True):
    """Combined rows, the gradient by row number, and that of the weights."""
    slots, restore = restore_of(given.batch.numbers)
    how = {"combiner": combiner, "max_norm": max_norm}

    def build(table, slots, restore, splits, weights, grad):
        ops, used = native.ops(), [weights] if weighted else []
        at = ([slots], [restore], [0.0]) if is_in_table else ([], [], [])
        rows = table if is_in_table else tf.gather(table, tf.gather(slots, restore))
        if is_in_table:
            made = [rows_of_bags(table, slots, restore, 0.0, splits, used, **how)]
            made += sum_of_table(
                [table] if max_norm else [], slots, [restore], [grad], [splits], used, bags=[0],
                weighted=[0 if weighted else -1], combiners=[combiner], max_norms=[max_norm], dim=given.dim)
        else:
            made = [ops.asc_combine(rows, splits, used, **how)]
            of_rows = ops.asc_combine_rows_grad(grad, splits, used, [rows] if max_norm else [], **how)
            made += [*ops.asc_lookup_grad(slots, [restore], [of_rows], dim=given.dim)]
        if weighted:
            made.append(ops.asc_combine_weights_grad(rows, *at, splits, weights, grad, **how))
        return made

    found, values, indices, *of_weights = fed(
        threads, build, table=given.table, slots=slots, restore=restore, splits=splits_of(given.batch),
        weights=given.batch.weights, grad=given.batch.gradient)
    np.testing.assert_array_equal(indices, slots)
    return [found, values, *of_weights]


def tensorflows(given, combiner, weighted, max_norm, sqrt=combined.exact_sqrt):
    """What ``embedding_lookup_sparse`` gives, with roots of some kind."""
    batch = given.batch
    bag_of = np.repeat(np.arange(len(batch.sizes)), batch.sizes)

    def build(table, numbers, places, weights, grad):
        shape = [len(batch.sizes), 40]
        ids = tf.SparseTensor(places, numbers, shape)
        used = tf.SparseTensor(places, weights, shape) if weighted else None
        with mock.patch.object(math_ops, "sqrt", sqrt):
            found = tf.nn.embedding_lookup_sparse(table, ids, used, combiner=combiner, max_norm=max_norm or None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of max_norm: the gradient of unique rows becomes a dense one
            of_rows, of_weights = tf.gradients(found, [table, weights], grad[:tf.shape(found)[0]])
        return [found, of_rows.indices, of_rows.values, *([of_weights] if weighted else [])]

    found, indices, of_rows, *of_weights = fed(
        1, build, table=given.table, numbers=batch.numbers, weights=batch.weights,
        places=np.stack([bag_of, np.zeros_like(bag_of)], axis=1), grad=batch.gradient)
    position = {index: i for i, index in enumerate(indices)}  # TensorFlow 2.15 sorts the indices
    assert len(position) == len(indices)
    in_order = [position[slot] for slot in restore_of(batch.numbers)[0]]
    return [combined.padded(found, batch.sizes), of_rows[in_order], *of_weights]


def limit_of(given):
    """A norm that half of the rows exceed."""
    return float(np.median(np.linalg.norm(given.table, axis=1)))


@pytest.mark.parametrize("combiner, weighted", combined.KINDS.values(), ids=list(combined.KINDS))
@pytest.mark.each_value
@pytest.mark.parametrize("dim, threads", [
    (1, 1), (3, 2), (8, 1), (10, 2), (16, 2), (32, 1), (64, 3), (74, 1), (128, 2)])
def test_bits_are_those_of_embedding_lookup_sparse(dim, threads, combiner, weighted):
    given = case(dim)
    expected = tensorflows(given, combiner, weighted == "weighted", 0.0)
    for is_in_table in (True, False):
        found = ours(threads, given, combiner, weighted == "weighted", 0.0, is_in_table)
        for mine, theirs in zip(found, expected):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("combiner, weighted", combined.KINDS.values(), ids=list(combined.KINDS))
@pytest.mark.each_value
@pytest.mark.parametrize("dim, threads", [(3, 1), (16, 2), (74, 2)])
def test_rows_that_are_too_long_are_cut_before(dim, threads, combiner, weighted):
    given = case(dim)
    arguments = (given, combiner, weighted == "weighted", limit_of(given))
    expected = tensorflows(*arguments)
    without = ours(threads, given, combiner, weighted == "weighted", 0.0)
    for mine, theirs, uncut in zip(ours(threads, *arguments), expected, without):
        np.testing.assert_array_equal(mine, theirs)
        assert not np.allclose(mine, uncut)
    for mine, theirs in zip(ours(threads, *arguments, is_in_table=False), expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)  # of each position, then summed


@pytest.mark.parametrize("combiner, weighted, cut", [
    ("sqrtn", True, False), pytest.param("sum", False, True, marks=pytest.mark.long),
    pytest.param("mean", True, True, marks=pytest.mark.long)])
def test_tensorflow_differs_from_them_by_no_more_than_from_itself(combiner, weighted, cut):
    """TensorFlow 1.15 approximates the square roots of a tensor, except the last ``n % 8``. Its results for a few rows
    equal the results of ascpipe. Its results for many rows differ by rounding errors only.
    """
    given = case(16, bags=40, most=7)  # fewer than eight rows in each
    arguments = (combiner, weighted, limit_of(given) if cut else 0.0)
    mine = ours(1, given, *arguments)[0]
    of_many = tensorflows(given, *arguments, sqrt=math_ops.sqrt)[0]
    of_few = np.concatenate([tensorflows(few, *arguments, sqrt=math_ops.sqrt)[0] for few in in_sevens(given)])
    np.testing.assert_array_equal(mine, of_few)
    largest = np.abs(of_many).max(axis=1, keepdims=True)
    assert (np.abs(of_few - of_many) <= 3 * np.spacing(np.maximum(largest, 1))).all()
    assert np.array_equal(of_few, of_many) != IS_TENSORFLOW_1


def in_sevens(given):
    """The same bags in parts of fewer than eight, with fewer than eight different rows in each part."""
    ends = np.cumsum(given.batch.sizes)
    first = 0
    while first < len(ends):
        last = first + 1
        while last < len(ends) and last - first < 7 and len(np.unique(
                given.batch.numbers[ends[first] - given.batch.sizes[first]:ends[last]])) < 8:
            last += 1
        at = slice(ends[first] - given.batch.sizes[first], ends[last - 1])
        yield given._replace(batch=combined.Bags(
            given.batch.numbers[at], given.batch.weights[at], given.batch.sizes[first:last],
            given.batch.gradient[first:last]))
        first = last


def test_a_row_of_zeros_has_the_gradient_of_what_it_is():
    given = case(4)._replace(table=np.zeros([ROWS, 4], np.float32))
    for mine, theirs in zip(ours(1, given, "sum", False, 0.5), tensorflows(given, "sum", False, 0.5)):
        np.testing.assert_array_equal(mine, theirs)


def test_keys_without_a_row_give_the_default_row_and_get_no_gradient_nor_do_padding_keys():
    def build(table, slots, restore, splits, grad):
        return [rows_of_bags(table, slots, restore, tf.constant([7.0, 8.0]), splits, [], combiner="sum"),
                *sum_of_table([], slots, [restore], [grad], [splits], [], bags=[0], weighted=[-1],
                              combiners=["sum"], max_norms=[0.0], dim=2)]

    found, values, indices = fed(
        1, build, table=np.float32([[1, 2], [3, 4], [5, 6]]), slots=np.int32([2, -1, 1 << 30]),
        restore=np.int32([0, 1, 2, -1, 0]), splits=np.int64([0, 3, 5]), grad=np.float32([[1, 2], [10, 20]]))
    np.testing.assert_array_equal(found, [[5 + 7 + 1, 6 + 8 + 2], [7 + 5, 8 + 6]])
    np.testing.assert_array_equal(values, [[11, 22]])
    assert indices.tolist() == [2]


@pytest.mark.parametrize("partial", [False, True])
def test_a_table_s_other_lookups_are_in_the_same_sum(partial):
    """In the order of the features, also beside rows that are not combined; ids of other features have no gradient."""
    first, second = case(4, seed=1), case(4, seed=2)
    plain = np.random.RandomState(7).randint(0, ROWS, 500)
    slots, restore = restore_of(np.concatenate([first.batch.numbers, plain, second.batch.numbers, [ROWS + 1]]))
    cut = np.cumsum([len(first.batch.numbers), len(plain), len(second.batch.numbers)])
    grads = [first.batch.gradient, np.random.RandomState(8).randn(500, 4).astype(np.float32), second.batch.gradient]
    splits = [splits_of(first.batch), splits_of(second.batch)]

    def build(slots, a, b, c, x, y, z, s, t, weights):
        ops = native.ops()
        fused = sum_of_table([], slots, [a, b, c], [x, y, z], [s, t], [weights], bags=[0, -1, 1],
                             weighted=[-1, -1, 0], combiners=["mean", "", "sum"], max_norms=[0.0] * 3, dim=4,
                             partial=partial)
        apart = ops.asc_lookup_grad(
            slots, [a, b, c], [ops.asc_combine_rows_grad(x, s, [], [], combiner="mean"), y,
                               ops.asc_combine_rows_grad(z, t, [weights], [], combiner="sum")], dim=4, partial=partial)
        return [fused, apart]

    a, b, c, _ = np.split(restore, cut)
    fused, apart = fed(2, build, slots=slots, a=a, b=b, c=c, x=grads[0], y=grads[1], z=grads[2], s=splits[0],
                       t=splits[1], weights=second.batch.weights)
    np.testing.assert_array_equal(fused.indices, apart.indices)
    np.testing.assert_array_equal(fused.values, apart.values)
    assert len(fused.indices) == len(slots) - partial


def test_rows_are_cut_anew_for_each_feature_of_a_table():
    first, second = case(4, seed=1), case(4, seed=2)
    slots, restore = restore_of(np.concatenate([first.batch.numbers, second.batch.numbers]))
    a, b = np.split(restore, [len(first.batch.numbers)])
    combiners, max_norms = ["sum", "mean"], [limit_of(first), 0.8 * limit_of(first)]

    def build(table, slots, a, b, x, y, s, t):
        def sums(*chosen):
            return sum_of_table(
                [table], slots, [[a, b][i] for i in chosen], [[x, y][i] for i in chosen], [[s, t][i] for i in chosen],
                [], bags=list(range(len(chosen))), weighted=[-1] * len(chosen),
                combiners=[combiners[i] for i in chosen], max_norms=[max_norms[i] for i in chosen], dim=4).values

        return [sums(0, 1), sums(0), sums(1)]

    together, of_first, of_second = fed(
        2, build, table=first.table, slots=slots, a=a, b=b, x=first.batch.gradient, y=second.batch.gradient,
        s=splits_of(first.batch), t=splits_of(second.batch))
    assert of_first.any() and of_second.any()
    np.testing.assert_array_equal(together, of_first + of_second)


@pytest.mark.parametrize("threads", [1, 4])
def test_one_op_sums_columns_of_bags_and_of_ids_for_several_tables(threads):
    """Of one table with both kinds of features, and of one table without bags."""
    bags = case(4, bags=700)
    batch, random = len(bags.batch.sizes), np.random.RandomState(3)
    plain, pairs = random.randint(0, ROWS, batch), random.randint(0, ROWS, [batch, 2])
    slots, restore = restore_of(np.concatenate([bags.batch.numbers, pairs.ravel()]))
    other_slots, other_restore = restore_of(plain)
    of_bags, of_pairs = np.split(restore, [len(bags.batch.numbers)])
    grad = random.randn(batch, 4 + 3 + 8).astype(np.float32)

    def build(slots, other_slots, of_bags, of_pairs, plain, grad, splits):
        together = native.ops().asc_sum(
            [], [slots, other_slots], [of_bags, plain, of_pairs], [grad], [splits], [], dims=[4, 3],
            partial=[False, False], rows_of=[-1, -1], tables=[0, 1, 0], sources=[0, 0, 0], columns=[0, 4, 7],
            bags=[0, -1, -1], weighted=[-1, -1, -1], combiners=["mean", "", ""], max_norms=[0.0] * 3)
        of_rows = native.ops().asc_combine_rows_grad(grad[:, :4], splits, [], [], combiner="mean")
        first = native.ops().asc_lookup_grad(
            slots, [of_bags, of_pairs], [of_rows, tf.reshape(grad[:, 7:], [batch, 2, 4])], dim=4)
        second = native.ops().asc_lookup_grad(other_slots, [plain], [grad[:, 4:7]], dim=3)
        return list(zip(*together)), [first, second]

    for found, expected in zip(*fed(
            threads, build, slots=slots, other_slots=other_slots, of_bags=of_bags,
            of_pairs=of_pairs.reshape(batch, 2), plain=other_restore, grad=grad, splits=splits_of(bags.batch))):
        np.testing.assert_array_equal(found[1], expected.indices)
        np.testing.assert_array_equal(found[0], expected.values)


@pytest.mark.parametrize("threads", [1, 4])
def test_one_op_reads_bags_and_ids_of_several_tables_side_by_side_and_apart(threads):
    bags = case(4, bags=700)
    batch, random = len(bags.batch.sizes), np.random.RandomState(3)
    slots, of_bags = restore_of(bags.batch.numbers)
    other = random.randn(9, 3).astype(np.float32)
    other_slots = np.int32([4, -1, 0, 8, 3])
    ids, pairs, cube = (random.randint(-1, 5, shape).astype(np.int32) for shape in ([batch], [batch, 2], [5, 2, 7]))
    beside = random.randn(batch, 2).astype(np.float32)

    def build(table, other, slots, other_slots, of_bags, ids, pairs, cube, splits, weights, beside):
        default = [4.0, 5.0, 6.0]
        together = native.ops().asc_read(
            [table, other], [slots, other_slots], [0.0, default], [of_bags, ids, pairs, cube, of_bags], [splits],
            [weights], [beside], tables=[-1, -1], sources=[0, 1, 1, 1, 0], bags=[0, -1, -1, -1, 0],
            weighted=[-1, -1, -1, -1, 0], combiners=["mean", "", "", "", "sum"], max_norms=[0.0] * 5,
            order=[2, 0, 5, 1, 3, 4], pieces=[4, 1, 1], o=3)
        assert [made.shape.rank for made in together] == [2, 4, 2]
        rows = native.ops().asc_restore_rows(table, slots, [of_bags], 0.0)[0]
        plain, side_by_side, apart = native.ops().asc_restore_rows(other, other_slots, [ids, pairs, cube], default)
        mean = native.ops().asc_combine(rows, splits, [], combiner="mean")
        return together, [tf.concat([tf.reshape(side_by_side, [batch, 6]), mean, beside, plain], axis=1), apart,
                          native.ops().asc_combine(rows, splits, [weights], combiner="sum")]

    for found, expected in zip(*fed(
            threads, build, table=bags.table, other=other, slots=slots, other_slots=other_slots, of_bags=of_bags,
            ids=ids, pairs=pairs, cube=cube, splits=splits_of(bags.batch), weights=bags.batch.weights, beside=beside)):
        np.testing.assert_array_equal(found, expected)


class TestSplits:
    def splits(self, *places, shape=None, threads=2):
        arrays = {"p{}".format(i): np.int64(place) for i, place in enumerate(places)}
        given = {} if shape is None else {"shape": np.int64(shape)}

        def build(**tensors):
            last = [tensors.pop("shape")] if given else []
            return native.ops().asc_bag_splits(list(tensors.values()), last)

        return fed(threads, build, **arrays, **given).tolist()

    def test_they_are_those_of_the_rows(self):
        assert self.splits([[1, 0], [1, 5], [3, 2]], shape=[6, 9]) == [0, 0, 2, 2, 3, 3, 3]
        assert self.splits(np.zeros([0, 2]), shape=[2, 9]) == [0, 0, 0]
        assert self.splits(np.zeros([0, 2]), shape=[0, 9]) == [0]
        assert self.splits([0, 2, 2]) == [0, 2, 2]

    def test_any_number_of_threads_finds_the_same(self):
        rows = np.sort(np.random.RandomState(1).randint(0, 50000, 200000))
        rows = rows[(rows < 20000) | (rows > 30000)]
        expected = np.searchsorted(rows, np.arange(50001)).tolist()
        assert self.splits(np.stack([rows, rows], 1), shape=[50000, 1], threads=3) == expected

    @pytest.mark.parametrize("places, shape, said", [
        ([[[1, 0], [0, 1]]], [2, 2], "not in order: row 0 at position 1 comes after row 1; tf.sparse.reorder"),
        ([[[0, 0], [2, 1]]], [2, 2], r"row 2 of the id at position 1 is not in \[0, 2\)"),
        ([[[-1, 0]]], [2, 2], r"row -1 of the id at position 0 is not in \[0, 2\)"),
        ([np.zeros([1, 2])], [-1, 2], "-1 bags are not in"), ([np.zeros([1, 2])], [2 ** 40, 2], "1099511627776 bags"),
        ([np.zeros([1, 3])], [2, 2, 2], r"indices have shape \[1,3\] .* ids of bags have rank 2"),
        ([[[0, 0], [1, 0]], [[0, 0], [1, 1]]], [2, 2], "another place than ids, at element 3 of their indices: 1"),
        ([[[0, 0], [1, 0]], [[0, 0]]], [2, 2], r"places of weights have shape \[1,2\], those of ids \[2,2\]"),
        ([[0, 2], [0, 1]], None, "another place than ids, at element 1 of their row splits: 1 and not 2")])
    def test_what_is_no_bag_is_refused(self, places, shape, said):
        with pytest.raises(tf.errors.InvalidArgumentError, match="E324: AscBagSplits: .*" + said) as caught:
            self.splits(*places, shape=shape)
        assert "This step trained nothing" in str(caught.value)


@pytest.mark.parametrize("splits, weights, said", [
    ([0, 3, 2], 2, r"row split 2 at 2 of 2 bags with 2 ids"), ([1, 2], 2, "row split 1 at 0 of 1 bags"),
    ([0, 1], 2, "row split 1 at 1 of 1 bags with 2 ids"), ([], 2, r"row splits have shape \[0\]"),
    ([0, 2], 3, r"weights have shape \[3\] for 2 ids")])
def test_splits_and_weights_that_are_not_of_the_ids_are_refused(splits, weights, said):
    def build(table, restore, splits, weights):
        return rows_of_bags(table, [0], restore, 0.0, splits, [weights], combiner="sum")

    with pytest.raises(tf.errors.InvalidArgumentError, match="E324: AscRead: .*" + said):
        fed(1, build, table=np.float32([[1, 2]]), restore=np.int32([0, 0]), splits=np.int64(splits),
            weights=np.ones(weights, np.float32))


@pytest.mark.parametrize("restore, slots, said", [
    ([0, 1], [0], r"restore index 1 at position 1 of lookup 0 is outside \[0, 1\)"),
    ([0, -2], [0], "restore index -2"), ([0, 0], [5], "slot 5 at index 0 is outside")])
def test_indices_that_are_outside_are_refused(restore, slots, said):
    def build(table, slots, restore, splits, grad):
        ops = native.ops()
        return [rows_of_bags(table, slots, restore, 0.0, splits, [], combiner="mean"),
                ops.asc_combine_weights_grad(table, [slots], [restore], [0.0], splits, [1.0, 1.0], grad,
                                             combiner="mean"),
                sum_of_table([table], slots, [restore], [grad], [splits], [], bags=[0], weighted=[-1],
                             combiners=["mean"], max_norms=[1.0], dim=2).values]

    for fetch in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError, match=said.split(" at index")[0]):
            fed(1, lambda fetch=fetch, **tensors: build(**tensors)[fetch], table=np.float32([[1, 2]]),
                slots=np.int32(slots), restore=np.int32(restore), splits=np.int64([0, 2]), grad=np.float32([[1, 1]]))
