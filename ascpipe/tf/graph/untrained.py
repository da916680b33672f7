"""Advice on how to train a table with the program's API."""
from typing import Sequence

from ascpipe.tf.graph.expansion import HANDLES, LOCAL_ROWS
from ascpipe.tf.running.process import Process

_PLAIN = ("tf.trainable_variables() has no tables, so optimizers of TensorFlow do not find them. minimize(loss) of an "
          "optimizer of asc.optimizers trains variables and tables. If the program passes a list of variables, add "
          "asc.table_variables() to it, or table.variable of each table that this optimizer trains. If "
          "optimize_loss, create_train_op or a similar function selects the variables, pass asc.Optimizer(dense=..., "
          "sparse=...) to it. To keep the rows unchanged, look the table up with trainable=False")
_INCUMBENT = ("Pass {gradients} to tf.gradients(), and apply the gradients with an optimizer of mx_rec.optimizers, for "
              "example {optimizer}. To keep the rows unchanged, look the table up with is_train=False")


def how_to_train(process: Process, others: Sequence[str] = ()) -> str:
    """Return advice for a program in which no op trains a table.

    Args:
        process: state of the process, which contains the API that the program uses.
        others: names of more untrained tables.
    """
    if process.is_plain:
        cure = _PLAIN
    elif process.configuration.use_dynamic_expansion:
        cure = _INCUMBENT.format(
            gradients="tf.get_collection({!r})".format(LOCAL_ROWS),
            optimizer="lazy_adam_by_addr.create_hash_optimizer_by_address(), together with tf.get_collection({!r})"
            .format(HANDLES))
    else:
        cure = _INCUMBENT.format(gradients="the second result of get_dense_and_sparse_variable()",
                                 optimizer="lazy_adam.create_hash_optimizer()")
    also = "The same applies to {}. ".format(", ".join(map(repr, others))) if others else ""
    return "{}{}. Nothing was trained".format(also, cure)
