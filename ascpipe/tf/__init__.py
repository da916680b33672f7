"""The Python API for programs on TensorFlow 1.15; ``mx_rec`` re-exports it under its own paths."""
from ascpipe.checkpoint.reader import trained_batches
from ascpipe.tf.saver import Saver

__all__ = ["Saver", "trained_batches"]
