"""AscLookup and its gradient, against TensorFlow's own ops."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.layout.words import SLOT_FROZEN
from ascpipe.tf.running import native
from tests.tf.programs import run_unfolded

ROWS = 50


def run(build, threads=2):
    """Evaluate what ``build`` makes in a graph of its own."""
    return run_unfolded(build, threads)


def lookup(values, slots, restores, default=0.0):
    variable = tf.compat.v1.Variable(values, trainable=False, use_resource=False)
    return native.ops().asc_lookup(variable, np.array(slots, np.int32), [np.array(r, np.int32) for r in restores],
                                   np.array(default, np.float32))


@pytest.mark.parametrize("dim", [1, 3, 8, 16, 32, 64, 100, 128])
def test_a_lookup_gathers_the_row_of_every_position(dim):
    values = np.random.RandomState(1).randn(ROWS, dim).astype(np.float32)
    slots = np.random.RandomState(2).permutation(ROWS)[:20]
    restores = [np.random.RandomState(3).randint(0, 20, [7, 3]), np.random.RandomState(4).randint(0, 20, [11])]
    found = run(lambda: lookup(values, slots, restores))
    for embeddings, restore in zip(found, restores):
        assert np.array_equal(embeddings, values[slots[restore]])


def test_slot_minus_one_reads_the_default_row():
    values = np.ones([4, 2], np.float32)
    (by_row,) = run(lambda: lookup(values, [2, -1], [[0, 1]], [5.0, 6.0]))
    (by_scalar,) = run(lambda: lookup(values, [2, -1], [[0, 1]], 7.0))
    assert by_row.tolist() == [[1, 1], [5, 6]]
    assert by_scalar.tolist() == [[1, 1], [7, 7]]


def test_an_empty_batch_gives_empty_embeddings():
    (embeddings,) = run(lambda: lookup(np.ones([4, 2], np.float32), [], [np.zeros([0, 3])]))
    assert embeddings.shape == (0, 3, 2)


def test_the_static_shape_is_that_of_the_restore_index_and_dim():
    with tf.Graph().as_default():
        variable = tf.compat.v1.Variable(np.zeros([4, 2], np.float32), trainable=False, use_resource=False)
        restore = tf.compat.v1.placeholder(tf.int32, [None, 5])
        (embeddings,) = native.ops().asc_lookup(variable, tf.zeros([3], tf.int32), [restore], 0.0)
        assert embeddings.shape.as_list() == [None, 5, 2]


@pytest.mark.parametrize(("slots", "restore", "text"), [
    ([1, 4], [0, 1], r"slot 4 at index 1 is outside \[0, 4\)"),
    ([1, -2], [0, 1], r"slot -2 at index 1"),
    ([1, 2], [0, 1, 2], r"restore index 2 at position 2 of lookup 0 is outside \[0, 2\)"),
    ([1, 2], [0, -2], r"restore index -2 at position 1 of lookup 0 is outside \[0, 2\) and not -1"),
    ([1, 4 + 2 ** 30], [0, 1], r"slot 1073741828 at index 1 is outside"),
])
def test_a_bad_index_is_named_with_its_value_and_limit(slots, restore, text):
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(lambda: lookup(np.ones([4, 2], np.float32), slots, [restore]))


def test_the_first_bad_restore_index_is_named_at_any_number_of_threads():
    restore = np.zeros(200000, np.int32)
    restore[[150, 199999]] = 9
    with pytest.raises(tf.errors.InvalidArgumentError, match="at position 150 "):
        run(lambda: lookup(np.ones([4, 2], np.float32), [0], [restore]), threads=4)


def test_a_default_row_of_another_length_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"default_row has shape \[3\], expected \[\] or \[2\]"):
        run(lambda: lookup(np.ones([4, 2], np.float32), [0], [[0]], [1.0, 2.0, 3.0]))


def gradient(slots, restores, grads, dim):
    return native.ops().asc_lookup_grad(np.array(slots, np.int32), [np.array(r, np.int32) for r in restores],
                                        [np.array(g, np.float32) for g in grads], dim=dim)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("dim", [1, 5, 8, 16, 32, 64, 128])
@pytest.mark.each_value
def test_the_gradient_is_bit_equal_to_unsorted_segment_sum(dim, threads):
    random = np.random.RandomState(dim)
    distinct = 40
    slots = random.permutation(ROWS)[:distinct]
    # More positions than are dealt out in one go: with 4 threads they share the work.
    restores = [random.randint(0, distinct, [300, 2]), random.randint(0, 3, [9000]), random.randint(0, distinct, [0])]
    grads = [random.randn(*(restore.shape + (dim,))).astype(np.float32) * 10.0 ** random.randint(-6, 6)
             for restore in restores]

    def both():
        ours = gradient(slots, restores, grads, dim)
        flat = np.concatenate([restore.reshape(-1) for restore in restores])
        theirs = tf.math.unsorted_segment_sum(np.concatenate([g.reshape(-1, dim) for g in grads]), flat, distinct)
        return ours.values, ours.indices, theirs

    values, indices, expected = run(both, threads)
    assert indices.tolist() == slots.tolist()
    assert values.tobytes() == expected.tobytes()


def test_ids_without_a_row_are_left_out_of_the_gradient():
    found = run(lambda: gradient([3, -1, 0], [[0, 1, 2, 0]], [[[1], [2], [4], [8]]], 1))
    assert found.indices.tolist() == [3, 0]
    assert found.values.tolist() == [[9], [4]]


def test_ids_that_other_features_alone_have_are_left_out_of_a_partial_gradient():
    def build():
        return [native.ops().asc_lookup_grad(
            np.int32([3, 1, 0, -1]), [np.int32([0, 2, 0, 3])], [np.float32([[1], [2], [4], [8]])], dim=1,
            partial=partial) for partial in (True, False)]

    partial, whole = run(build)
    assert (partial.indices.tolist(), partial.values.tolist()) == ([3, 0], [[5], [2]])
    assert (whole.indices.tolist(), whole.values.tolist()) == ([3, 1, 0], [[5], [0], [2]])


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"gradient 0 has shape \[2,3\], expected \[2,2\]"):
        run(lambda: gradient([0], [[0, 0]], [np.zeros([2, 3])], 2))


def test_a_bad_restore_index_of_the_gradient_is_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"restore index 5 at position 1 of lookup 0"):
        run(lambda: gradient([0], [[0, 5]], [np.zeros([2, 2])], 2))


def test_the_first_bad_restore_index_of_the_gradient_is_named_at_any_number_of_threads():
    restores = [np.zeros(20000, np.int32), np.zeros(20000, np.int32)]
    restores[0][[9000, 19999]], restores[1][0] = -2, 7
    with pytest.raises(tf.errors.InvalidArgumentError, match="restore index -2 at position 9000 of lookup 0 is"):
        run(lambda: gradient([0], restores, [np.zeros([20000, 2])] * 2, 2), threads=4)


def test_a_plan_that_was_not_put_in_place_says_what_to_call():
    def build():
        return native.ops().asc_provisional_plan(np.int64(1), table=0, stream=0, k=1)

    with pytest.raises(tf.errors.FailedPreconditionError, match=r"E205: .* not started when .*Call .*start.*\("):
        run(build)


def test_submitting_before_the_start_says_what_to_call():
    with pytest.raises(tf.errors.FailedPreconditionError, match="E205: The pipeline was (not started|stopped by .*)"):
        run(lambda: native.ops().asc_submit([np.array([1])], [], [], stream=0))


@pytest.mark.parametrize("dim", [2, 8])
def test_a_missing_position_reads_the_default_row_and_gives_no_gradient(dim):
    values = np.ones([4, dim], np.float32)

    def both():
        (rows,) = lookup(values, [2, 3], [[0, -1, 1, -1]], 7.0)
        return rows, gradient([2, 3], [[0, -1, 1, -1]], [np.full([4, dim], 3.0)], dim)

    rows, grads = run(both)
    assert rows[:, 0].tolist() == [1, 7, 1, 7]
    assert grads.indices.tolist() == [2, 3]
    assert grads.values.tolist() == [[3.0] * dim] * 2


def test_a_frozen_row_is_looked_up_and_not_trained():
    values = np.arange(4, dtype=np.float32).reshape(4, 1)
    slots = [3 + SLOT_FROZEN, 1, SLOT_FROZEN]

    def both():
        (rows,) = lookup(values, slots, [[0, 1, 2]])
        partial = native.ops().asc_lookup_grad(np.array(slots, np.int32), [np.array([0, 1], np.int32)],
                                               [np.ones([2, 1], np.float32)], dim=1, partial=True)
        return rows, gradient(slots, [[0, 1, 2]], [[[1], [2], [4]]], 1), partial

    rows, whole, partial = run(both)
    assert rows.tolist() == [[3], [1], [0]]
    assert (whole.indices.tolist(), whole.values.tolist()) == ([1], [[2]])
    assert (partial.indices.tolist(), partial.values.tolist()) == ([1], [[1]])


def test_codes_of_home_rows_need_the_table():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"slot -2 at index 0 is outside \[0, 4\) and not -1"):
        run(lambda: lookup(np.ones([4, 2], np.float32), [-2], [[0]]))
