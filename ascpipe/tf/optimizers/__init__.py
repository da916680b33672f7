"""Optimizers for tables."""
import difflib
from typing import Any

from ascpipe.tf.optimizers.accumulation import accumulate
from ascpipe.tf.optimizers.plain_names import Adagrad, Ftrl, GradientDescent, LazyAdam

__all__ = ["Adagrad", "Ftrl", "GradientDescent", "LazyAdam", "accumulate"]

#: Suggestions for TensorFlow's names, in lower case and without "optimizer".
_INSTEAD = {"sgd": "GradientDescent", "followtheregularizedleader": "Ftrl"}
_LAZY = "LazyAdam, which is Adam that updates only the rows of a batch"
_OF_TENSORFLOW = {
    "momentum": "MomentumOptimizer", "rmsprop": "RMSPropOptimizer", "adadelta": "AdadeltaOptimizer",
    "proximaladagrad": "ProximalAdagradOptimizer", "proximalgradientdescent": "ProximalGradientDescentOptimizer"}


def __getattr__(name: str) -> Any:
    word = name.lower().replace("_", "").replace("optimizer", "")
    known = {each.lower(): each for each in __all__}
    if word in _OF_TENSORFLOW:
        hint = ("tf.compat.v1.train.{}(...).minimize(loss, var_list=tf.trainable_variables() + "
                "asc.table_variables()) trains tables that do not grow").format(_OF_TENSORFLOW[word])
    elif word.startswith("adam"):
        hint = "use " + _LAZY
    else:
        near = _INSTEAD.get(word) or known.get(word) or next(
            (known[each] for each in difflib.get_close_matches(word, known, 1)), None)
        hint = "use {}".format(near) if near else "there are {}".format(", ".join(__all__))
    raise AttributeError("module 'ascpipe.tf.optimizers' has no attribute {!r}; {}".format(name, hint))
