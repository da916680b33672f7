"""Sources, build program and loader of the TensorFlow ops."""
