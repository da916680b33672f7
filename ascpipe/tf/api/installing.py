"""What TensorFlow's own classes do besides, once a program uses tables: Savers, Estimators, hooks, sessions.

All functions here are called by ``init`` and ``import mx_rec``; a patch of a feature, such as feature columns, is
applied when the program first uses that (``ascpipe.tf.patches``).
"""
from ascpipe.tf.api import checkpoint_values
from ascpipe.tf.checkpoints import saver, warm_starting
from ascpipe.tf.feature_column import combining, variables
from ascpipe.tf.modify import watched_graphs
from ascpipe.tf.program import first_uses, keras_models, summary_hook
from ascpipe.tf.serving import served_tables
from ascpipe.tf.starting import copied_graphs, start_pipeline
from ascpipe.tf.training import losses, moving_averages, optimizers_of_programs


def install() -> None:
    """Let Savers, Estimators, optimizers, iterators and sessions of this process know tables. May be called twice.

    ``ascpipe.tf.patches`` has the list, and gives TensorFlow back as it was.
    """
    saver.install()
    warm_starting.install()
    served_tables.install()
    variables.install()
    checkpoint_values.install()
    combining.install()
    optimizers_of_programs.install()
    losses.install()
    moving_averages.install()
    keras_models.install()
    summary_hook.install()
    copied_graphs.install()
    start_pipeline.install()
    watched_graphs.install()
    first_uses.install()
