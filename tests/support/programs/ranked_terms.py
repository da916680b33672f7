"""Keys whose gradient cancels in a step of ``ranked.py``: it is nearly nothing beside its terms, so mostly rounding.

Adam divides a gradient by its size. For example a row's gradient had the terms 5.79117e-3 and -5.79144e-3: their sum
was -2.701e-7 on one rank and -2.692e-7 on three, which add in another order and divide by 3. The steps differed by
5.6e-6.
"""
from typing import Any, Dict, List, Set

import numpy as np
import tensorflow as tf

from tests.support.programs.ranked_lines import Lines
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

CANCELS = 1e-4  #: a gradient's size to the sum of its terms' sizes
_MISSING = np.iinfo(np.int64).min


class Cancelled:
    """Looks at the terms of each key's gradient, step by step.

    Args:
        lines: of all keys, and the features' tables.
        loss: of a training step.
        rows: by feature, float32[lines, width, dim] that were looked up.
        ids: by feature, int64[lines, width], or a SparseTensor of them.
    """

    def __init__(self, lines: Lines, loss: tf.Tensor, rows: Dict[str, tf.Tensor], ids: Dict[str, Any]) -> None:
        self._lines = lines
        self._tables = {name: feature.table for name, feature in lines.features.items()}
        self._keys: Dict[str, Set[int]] = {table: set() for table in self._tables.values()}
        terms = dict(zip(rows, tf.gradients(loss, list(rows.values()))))
        self.fetches = {name: (_dense(ids[name]), gradient) for name, gradient in terms.items() if gradient is not None}

    def look(self, fetched: Dict[str, Any]) -> None:
        """At what ``fetches`` gave in a step."""
        for table, found in self._keys.items():
            of_table = [fetched[name] for name in fetched if self._tables[name] == table]
            keys, places = np.unique(np.concatenate([ids.ravel() for ids, _ in of_table]), return_inverse=True)
            terms = np.concatenate([gradient.reshape(-1, gradient.shape[-1]) for _, gradient in of_table])
            gradients, sizes = np.zeros((2, len(keys), terms.shape[1]))
            np.add.at(gradients, places, terms)
            np.add.at(sizes, places, np.abs(terms))
            found.update(keys[np.any(np.abs(gradients) < CANCELS * sizes, axis=1)].tolist())

    def lines(self) -> Dict[str, List[List[bool]]]:
        """By feature, bool[batches, lines] of the evaluation of all keys: whether a key's gradient cancelled once."""
        batches = list(self._lines.all_keys())
        return {name: [np.isin(batch[name][:, 0], list(self._keys[table])).tolist() for batch in batches]
                for name, table in self._tables.items()}


def _dense(ids: Any) -> tf.Tensor:
    return tf.sparse.to_dense(ids, _MISSING) if isinstance(ids, tf.SparseTensor) else ids
