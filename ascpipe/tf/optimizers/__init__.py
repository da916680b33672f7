"""Optimizers for tables: TensorFlow's own formulas, on gradients whose indices are unique already."""
