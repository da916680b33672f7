"""Lazy Adam for plain variables. TensorFlow 2 does not have ``tf.contrib``, which contains this optimizer."""
from examples.dlrm.quiet import tf


class LazyAdam(tf.compat.v1.train.AdamOptimizer):
    """Adam that updates only the rows of a batch, with the formula of ``tf.contrib.opt.LazyAdamOptimizer``."""

    def _apply_sparse(self, grad: tf.IndexedSlices, var: tf.Variable) -> tf.Operation:
        beta1_power, beta2_power = self._get_beta_accumulators()
        rate = self._lr_t * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
        rows, values = grad.indices, grad.values  # each row occurs once
        update = tf.compat.v1.scatter_update
        first, second = self.get_slot(var, "m"), self.get_slot(var, "v")
        first = update(first, rows, self._beta1_t * tf.gather(first, rows) + (1 - self._beta1_t) * values)
        second = update(second, rows, self._beta2_t * tf.gather(second, rows) + (1 - self._beta2_t) * tf.square(values))
        step = rate * tf.gather(first, rows) / (tf.sqrt(tf.gather(second, rows)) + self._epsilon_t)
        return tf.group(tf.compat.v1.scatter_sub(var, rows, step), first, second)
