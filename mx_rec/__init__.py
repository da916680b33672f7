"""The incumbent's import paths on top of ascpipe: re-exports; and TensorFlow's Savers and warm starts know tables."""
from ascpipe.tf import end_of_data, saver, warm_starting

__version__ = "6.0.RC3"  #: the version of the incumbent whose API this is

saver.install()
warm_starting.install()
end_of_data.install()


def version() -> str:
    """``__version__``."""
    return __version__
