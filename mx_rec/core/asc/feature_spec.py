"""Features."""
from ascpipe.tf.feature_spec import FeatureSpec

__all__ = ["FeatureSpec"]
