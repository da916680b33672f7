"""Text that explains how to train a table, for the API that a program uses."""
from typing import Sequence

from ascpipe.tf.graph.expansion import HANDLES, LOCAL_ROWS
from ascpipe.tf.running.process import Process

_PLAIN = ("tf.trainable_variables() has no tables, so an optimizer of TensorFlow does not find them. An optimizer of "
          "ascpipe.tf.optimizers trains variables and tables by minimize(loss). Where the program passes a list of "
          "variables, add ascpipe.tf.table_variables() to it. Where optimize_loss, create_train_op or the like choose "
          "the variables, give them ascpipe.tf.Optimizer(dense=..., sparse=...). To keep the rows as they are, look "
          "the table up with trainable=False")
_INCUMBENT = ("Give {gradients} to tf.gradients(), and apply the gradients by an optimizer of mx_rec.optimizers, for "
              "example {optimizer}. To keep the rows as they are, look the table up with is_train=False")


def how_to_train(process: Process, others: Sequence[str] = ()) -> str:
    """Return advice for a program in which no op trains a table.

    Args:
        process: knows which API the program uses.
        others: names of further untrained tables.
    """
    if process.is_plain:
        cure = _PLAIN
    elif process.configuration.use_dynamic_expansion:
        cure = _INCUMBENT.format(
            gradients="tf.get_collection({!r})".format(LOCAL_ROWS),
            optimizer="lazy_adam_by_addr.create_hash_optimizer_by_address(), together with tf.get_collection({!r})"
            .format(HANDLES))
    else:
        cure = _INCUMBENT.format(gradients="the second list of get_dense_and_sparse_variable()",
                                 optimizer="lazy_adam.create_hash_optimizer()")
    also = "The same is true of {}. ".format(", ".join(map(repr, others))) if others else ""
    return "{}{}. Nothing was trained".format(also, cure)
