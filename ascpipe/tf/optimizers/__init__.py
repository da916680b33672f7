"""Optimizers for tables."""
from ascpipe.tf.optimizers.plain_names import Adagrad, Ftrl, GradientDescent, LazyAdam

__all__ = ["Adagrad", "Ftrl", "GradientDescent", "LazyAdam"]
