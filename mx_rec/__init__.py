"""The incumbent's import paths on top of ascpipe: re-exports; and TensorFlow's Savers, warm starts, exports and
gradients know tables."""
from ascpipe.tf import end_of_data, estimator_exports, saver, warm_starting
from ascpipe.tf.modify import hooks

__version__ = "6.0.RC3"  #: the version of the incumbent whose API this is

saver.install()
warm_starting.install()
estimator_exports.install()
end_of_data.install()
hooks.install()


def version() -> str:
    """``__version__``."""
    return __version__
