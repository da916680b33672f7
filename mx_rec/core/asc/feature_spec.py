"""Feature declaration."""
from ascpipe.tf.graph.features import FeatureSpec

__all__ = ["FeatureSpec"]
