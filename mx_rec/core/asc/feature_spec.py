"""Features."""
from ascpipe.tf.graph.feature_spec import FeatureSpec

__all__ = ["FeatureSpec"]
