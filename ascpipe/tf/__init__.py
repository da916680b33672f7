"""The Python API for programs on TensorFlow 1.15; ``mx_rec`` re-exports it under its own paths."""
