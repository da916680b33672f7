"""Features."""
from ascpipe.tf.graph.features import FeatureSpec

__all__ = ["FeatureSpec"]
