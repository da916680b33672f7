"""Sparse-feature pipeline for TensorFlow: a daemon prepares batches ahead of training.

This file imports no other module, so that ``import ascpipe`` is fast.
"""

__version__ = "0.2.0"  #: the packages and the compiled ops read the version from here

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    raise AttributeError("module 'ascpipe' has no attribute {!r}. The functions for programs are in ascpipe.tf: import "
                         "ascpipe.tf as asc, then asc.init()".format(name))
