"""Sparse-feature pipeline for TensorFlow 1.15: a daemon works ahead of training.  Cheap to import."""

__version__ = "0.1.0"  #: pyproject.toml reads it

__all__ = ["__version__"]
