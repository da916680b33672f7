"""Optimizers that programs derive from one of TensorFlow's and ``CustomizedOptimizer``, with an update of their own."""
import functools
import inspect

import pytest
import tensorflow as tf

from ascpipe.tf.training import optimizers_of_programs
from mx_rec.optimizers import gradient_descent
from mx_rec.optimizers.base import CustomizedOptimizer
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.tf import programs

SOURCE = programs.batches(8)
DECAY = 0.01
PLAIN = tf.compat.v1.train.GradientDescentOptimizer
ORDERS = {"tensorflow_first": (PLAIN, CustomizedOptimizer), "ours_first": (CustomizedOptimizer, PLAIN)}


def derived(order):
    """A class as programs have it: gradient descent with weight decay, written with ops of TensorFlow."""
    class Decayed(*ORDERS[order]):
        def __init__(self, learning_rate, weight_decay=None, use_locking=False, name="GradientDescentWithDecay"):
            self.optimizer_type = "GradientDescentWithDecay"
            self.weight_decay = weight_decay
            super()._get_name(name=name)
            super().__init__(learning_rate=learning_rate, use_locking=use_locking, name=self.unique_name)

        def _apply_sparse_duplicate_indices(self, grad, var):
            rate = tf.cast(self._learning_rate_tensor, var.dtype.base_dtype)
            values = grad.values
            if self.weight_decay is not None:
                values = values + self.weight_decay * tf.gather(var, grad.indices)
            return tf.compat.v1.scatter_nd_add(var, tf.expand_dims(grad.indices, 1), -rate * values,
                                     use_locking=self._use_locking)

        def _apply_dense(self, grad, var):
            raise NotImplementedError("tables only")

    return Decayed


@pytest.mark.parametrize("order", ORDERS)
def test_its_name_is_numbered_and_known_before_tensorflow_is_called(order):
    with programs.ascpipe():
        made = [derived(order)(0.5), derived(order)(0.5), derived(order)(0.5, name="Other")]
        names = ["GradientDescentWithDecay_0", "GradientDescentWithDecay_1", "Other_0"]
        assert [one.unique_name for one in made] == [one.get_name() for one in made] == names
        assert isinstance(made[0], tf.compat.v1.train.Optimizer)
        with pytest.raises(ValueError, match="name"):
            derived(order)(0.5, name="")
    with programs.ascpipe():
        assert derived(order)(0.5).unique_name == names[0]  # another graph counts anew


@pytest.mark.parametrize("tier", [{}, {"rows": 24, "host_rows": 100}], ids=["device", "host"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.each_value
def test_it_trains_the_rows_of_the_batch_as_ours_does(order, tier):
    theirs = programs.our_losses(SOURCE, lambda: derived(order)(0.5, weight_decay=DECAY), **tier)
    ours = programs.our_losses(
        SOURCE, functools.partial(gradient_descent.create_hash_optimizer, 0.5, weight_decay=DECAY), **tier)
    assert theirs == ours
    assert theirs != programs.our_losses(SOURCE, lambda: derived(order)(0.5), **tier), "the decay changes nothing"


@pytest.mark.parametrize("attribute", ["_learning_rate", "_lr"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.each_value
def test_its_learning_rate_may_be_overwritten_when_the_loss_is_scaled(order, attribute):
    def losses(scale):
        with programs.ascpipe():
            optimizer = derived(order)(0.5)
            setattr(optimizer, attribute, getattr(optimizer, attribute) / scale)
            program = programs.Program(SOURCE, lambda: optimizer)
            _, sparse = get_dense_and_sparse_variable()
            gradients = tf.gradients(program.loss * scale, sparse)
            train = optimizer.apply_gradients(zip(gradients, sparse))  # after start_asc_pipeline, as programs do
            with programs.session() as run:
                program.initialise(run)
                return [run.run([program.loss, train])[0] for _ in SOURCE]

    assert losses(1024.0) == losses(1.0)
    assert len(set(losses(1.0))) == len(SOURCE)


def test_lazy_adam_has_the_learning_rate_where_tensorflows_adam_has_it():
    with programs.ascpipe():
        adam = programs.optimizer("lazy_adam", 0.25)
        assert (adam._lr, hasattr(adam, "_learning_rate")) == (0.25, False)
        for kind in ("adagrad", "ftrl", "gradient_descent"):
            assert programs.optimizer(kind, 0.25)._learning_rate == 0.25


@pytest.mark.parametrize("kind", optimizers_of_programs._FORMS, ids=lambda kind: kind.__name__)
def test_each_argument_of_an_optimizer_is_copied_to_its_form_for_tables(kind):
    names = set(inspect.signature(kind.__init__).parameters) - {"self", "name", "use_locking"}
    copied = {"learning_rate" if name == "lr" else name for name in optimizers_of_programs._FORMS[kind].arguments}
    assert copied - {"use_locking"} == names
