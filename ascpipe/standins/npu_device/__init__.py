"""Stand-in for the adapter of TensorFlow 2, of which programs use the part for TensorFlow 1."""
from ascpipe import standins

standins.stand_in(__name__)
