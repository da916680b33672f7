"""What programs written for the incumbent do beside its documented calls."""
import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.tf import one_table, programs

SCALE = 1024.0  #: a power of two: gradients are scaled without rounding
SOURCE = programs.batches(6)
KINDS = [(kind, expansion) for expansion, kinds in ((False, programs.OPTIMIZERS), (True, programs.BY_ADDRESS))
         for kind in kinds]


@pytest.mark.parametrize("kind, expansion", KINDS)
def test_the_learning_rate_is_what_a_program_last_made_it(kind, expansion):
    with programs.ascpipe(use_dynamic_expansion=expansion), tf.compat.v1.Session() as session:
        optimizer = programs.optimizer(kind, 0.25)
        assert optimizer._lr == 0.25
        optimizer._lr = 0.5
        optimizer._prepare()  # the first thing that applying gradients does
        read = optimizer._lr_t if kind == "lazy_adam" else optimizer._learning_rate_tensor
        assert session.run(read) == 0.5


def test_the_learning_rate_may_be_replaced_by_a_tensor():
    def optimizer():
        made = programs.optimizer("gradient_descent", 1.0)
        made._lr = tf.constant(1.0) / SCALE
        return made

    _, rows, _ = one_table.trained([one_table.batch(1, 1)], [1], optimizer=optimizer)
    assert rows == {1: 1.0 - 2.0 / SCALE}


def test_a_loss_that_is_scaled_for_an_optimizer_of_the_program_trains_the_same():
    def losses(scale):
        with programs.ascpipe():
            optimizer = _own_gradient_descent()
            optimizer._lr = optimizer._lr / scale
            program = programs.Program(SOURCE, lambda: optimizer, start=False)
            dense, sparse = get_dense_and_sparse_variable()
            gradients = tf.gradients(program.loss * scale, dense + sparse)
            assert [isinstance(gradient, tf.IndexedSlices) for gradient in gradients] == [False, True, True]
            update = tf.group(
                tf.compat.v1.train.GradientDescentOptimizer(0.1 / scale).apply_gradients(
                    zip(gradients[:len(dense)], dense)),
                optimizer.apply_gradients(zip(gradients[len(dense):], sparse)))
            start_asc_pipeline()
            with programs.session() as run:
                program.initialise(run)
                return [run.run([program.loss, update])[0] for _ in SOURCE]

    assert losses(SCALE) == losses(1.0)


def _own_gradient_descent():
    """An optimizer of the program's own, which scatters into the table."""
    from mx_rec.optimizers.gradient_descent import CustomizedGradientDescent

    class Own(CustomizedGradientDescent):
        def _apply_sparse_duplicate_indices(self, grad, var):
            step = -tf.cast(self._learning_rate_tensor, tf.float32) * grad.values
            return tf.compat.v1.scatter_nd_add(var, tf.expand_dims(grad.indices, 1), step)

    return Own(0.5)


def test_sizes_are_read_between_steps_as_plain_numbers():
    with one_table.one_table([one_table.batch(1, 2), one_table.batch(2, 3, 4)], [1]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            sizes = [program.table.size()]
            for _ in range(2):
                program.take()
                sizes.append(program.table.size())
    assert sizes == [0, 2, 4]
    assert all(isinstance(size, int) for size in sizes)


@pytest.mark.parametrize("expansion", [False, True])
def test_static_lookups_have_shapes_without_gaps(expansion):
    with programs.ascpipe(use_dynamic=False, use_dynamic_expansion=expansion):
        spec = FeatureSpec("ids", table_name="user")
        data = tf.data.Dataset.from_tensor_slices({"ids": np.zeros([8, 3], np.int64)}).batch(4, drop_remainder=True)
        batch = tf.compat.v1.data.make_initializable_iterator(data.map(get_asc_insert_func(spec))).get_next()
        table = create_table(tf.int64, 5, "user", tf.compat.v1.zeros_initializer(), device_vocabulary_size=20)
        rows = sparse_lookup(table, spec, 12, batch=batch)
        assert rows.shape.as_list() == [4, 3, 5]
        assert tf.reduce_sum(rows, axis=1).shape.as_list() == [4, 5]


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_batch_size_of_a_feature_that_is_not_that_of_the_data_changes_nothing(dynamic):
    def losses(**given):
        with programs.ascpipe(use_dynamic=dynamic):
            spec = FeatureSpec("a", table_name="user", **given)
            data = tf.data.Dataset.from_tensor_slices(
                {"a": np.arange(48).reshape(16, 3) % 7, "label": np.float32(np.arange(16) % 2)})
            data = data.batch(4, drop_remainder=True).map(get_asc_insert_func([spec]))
            iterator = tf.compat.v1.data.make_initializable_iterator(data)
            batch = iterator.get_next()
            table = programs.table("user")
            rows = sparse_lookup(table, spec, 12, batch=batch)
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - batch["label"]))
            train = programs.optimizer("adagrad", 0.1).minimize(loss, var_list=[table.variable])
            start_asc_pipeline()
            with programs.session() as run:
                run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                return [run.run([loss, train])[0] for _ in range(4)]

    assert losses(batch_size=64) == losses(batch_size=2) == losses()
