"""Applies the patches for Keras and for Estimators when a program makes its first model or Estimator."""
from typing import Any

from ascpipe.tf import internals, patches


@patches.FIRST_USES.by
def _get_cell(self: Any, *labels: str) -> Any:
    """In the place of TensorFlow's, which methods of models and Estimators call before they do anything."""
    if self is internals.KERAS_GAUGE:
        patches.KERAS.use()
    elif self is internals.ESTIMATOR_GAUGE:
        patches.ESTIMATORS.use()
    return patches.FIRST_USES.plain(self, *labels)
