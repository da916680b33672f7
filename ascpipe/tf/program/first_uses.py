"""Applies the patches for Keras and for Estimators when a program makes its first model or Estimator.

TensorFlow counts the use of both in gauges of its own: so those that were made before ``init`` are known, too.
"""
from typing import Any

from ascpipe.tf import internals, patches


def install() -> None:
    """Apply these patches from the first use on, which may have been before. May be called twice."""
    patches.FIRST_USES.apply(_get_cell)
    for gauge, label, feature in internals.gauges_of_models(patches.KERAS, patches.ESTIMATORS):
        if patches.FIRST_USES.plain(gauge, label).value():
            feature.use()


def _get_cell(self: Any, *labels: str) -> Any:
    """In the place of TensorFlow's, which each method of a model or an Estimator calls before it does anything."""
    for gauge, _, feature in internals.gauges_of_models(patches.KERAS, patches.ESTIMATORS):
        if self is gauge:
            feature.use()
    return patches.FIRST_USES.plain(self, *labels)
