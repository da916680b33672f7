"""Stand-in for the part of the TensorFlow 2 adapter that supports TensorFlow 1."""
from ascpipe import standins

standins.stand_in(__name__)
