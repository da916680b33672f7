"""Gradient descent for tables with variables."""
from ascpipe.tf.optimizers.gradient_descent import CustomizedGradientDescent, create_hash_optimizer

__all__ = ["CustomizedGradientDescent", "create_hash_optimizer"]
