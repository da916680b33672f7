"""The incumbent's import paths on top of ascpipe: re-exports and nothing else."""

__version__ = "6.0.RC3"  #: the version of the incumbent whose API this is


def version() -> str:
    """``__version__``."""
    return __version__
