"""The incumbent's import paths on top of ascpipe: re-exports, and every Saver of TensorFlow's also saves the tables."""
from ascpipe.tf import saver

__version__ = "6.0.RC3"  #: the version of the incumbent whose API this is

saver.install()


def version() -> str:
    """``__version__``."""
    return __version__
