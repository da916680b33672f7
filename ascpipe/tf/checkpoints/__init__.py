"""Saving, restoring and exporting tables together with TensorFlow's variables."""
