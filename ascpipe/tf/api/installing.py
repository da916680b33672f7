"""What TensorFlow's own classes do besides, once a program uses tables: Savers, Estimators, hooks, sessions."""
from ascpipe.tf.api import checkpoint_values
from ascpipe.tf.checkpoints import saver, warm_starting
from ascpipe.tf.feature_column import combining, variables
from ascpipe.tf.modify import hooks
from ascpipe.tf.program import keras_models, summary_hook
from ascpipe.tf.running import op_errors
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
    hooks.install()
    variables.install()
    checkpoint_values.install()
    combining.install()
    optimizers_of_programs.install()  # after the hooks, whose it calls
    losses.install()
    moving_averages.install()
    keras_models.install()
    summary_hook.install()
    op_errors.install()
    copied_graphs.install()
    start_pipeline.watch_sessions()
