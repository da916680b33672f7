"""``install``, which adds support for tables to Savers, Estimators, hooks and sessions of TensorFlow."""
from typing import Any

from ascpipe.tf import internals, patches
from ascpipe.tf.api import checkpoint_values
from ascpipe.tf.checkpoints import saver, saver_hook, warm_starting
from ascpipe.tf.feature_column import combining, variables
from ascpipe.tf.modify import watched_graphs
from ascpipe.tf.program import keras_models, summary_hook
from ascpipe.tf.serving import exporting
from ascpipe.tf.starting import copied_graphs, session_runs
from ascpipe.tf.training import losses, moving_averages, optimizers_of_programs

#: Modules that register replacements for attributes of TensorFlow. ``init`` needs all of them.
REPLACEMENTS = (checkpoint_values, saver, saver_hook, warm_starting, combining, variables, watched_graphs, keras_models,
                summary_hook, exporting, copied_graphs, session_runs, losses, moving_averages,
                optimizers_of_programs)


def install() -> None:
    """Apply the patches, so that TensorFlow supports tables in this process. Repeated calls have no further effect."""
    patches.apply()


@patches.FIRST_USES.by
def _get_cell(self: Any, *labels: str) -> Any:
    """Replacement for ``BoolGauge.get_cell`` that applies the patches for Keras models or Estimators when a program
    first uses a model or an Estimator.

    The methods of Keras models and Estimators call ``get_cell`` first.
    """
    if self is internals.KERAS_GAUGE:
        patches.KERAS.use()
    elif self is internals.ESTIMATOR_GAUGE:
        patches.ESTIMATORS.use()
    return patches.FIRST_USES.plain(self, *labels)
