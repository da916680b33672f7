"""Stand-in for the adapter of TensorFlow 1.15."""
