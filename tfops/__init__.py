"""TensorFlow ops: sources, build and load."""
