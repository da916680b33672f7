"""Sparse-feature pipeline for TensorFlow 1.15: a daemon works ahead of training.  Cheap to import."""

__version__ = "0.2.0"  #: the only place: packages and ops take it from here

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    raise AttributeError("module 'ascpipe' has no attribute {!r}. The functions for programs are in ascpipe.tf: import "
                         "ascpipe.tf as asc, then asc.init()".format(name))
