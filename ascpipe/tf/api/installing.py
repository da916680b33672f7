"""Application of the patches of Savers, Estimators, hooks and sessions in programs that use tables."""
from typing import Any

from ascpipe.tf import internals, patches
from ascpipe.tf.api import checkpoint_values
from ascpipe.tf.checkpoints import saver, saver_hook, warm_starting
from ascpipe.tf.feature_column import combining, variables
from ascpipe.tf.modify import watched_graphs
from ascpipe.tf.program import keras_models, summary_hook
from ascpipe.tf.serving import served_tables
from ascpipe.tf.starting import copied_graphs, start_pipeline
from ascpipe.tf.training import losses, moving_averages, optimizers_of_programs

#: Modules that register replacements of TensorFlow's attributes. ``init`` needs all of these modules.
REPLACEMENTS = (checkpoint_values, saver, saver_hook, warm_starting, combining, variables, watched_graphs, keras_models,
                summary_hook, served_tables, copied_graphs, start_pipeline, losses, moving_averages,
                optimizers_of_programs)


def install() -> None:
    """Let Savers, Estimators, optimizers and sessions of this process support tables. A second call is allowed."""
    patches.apply()


@patches.FIRST_USES.by
def _get_cell(self: Any, *labels: str) -> Any:
    """Replacement for the method of TensorFlow that the methods of Keras models and Estimators call first."""
    if self is internals.KERAS_GAUGE:
        patches.KERAS.use()
    elif self is internals.ESTIMATOR_GAUGE:
        patches.ESTIMATORS.use()
    return patches.FIRST_USES.plain(self, *labels)
