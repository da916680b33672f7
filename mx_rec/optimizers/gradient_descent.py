"""Gradient descent for tables without dynamic expansion."""
from ascpipe.tf.optimizers.gradient_descent import CustomizedGradientDescent, create_hash_optimizer

__all__ = ["CustomizedGradientDescent", "create_hash_optimizer"]
