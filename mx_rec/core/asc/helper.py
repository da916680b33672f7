"""The function for ``dataset.map``."""
from ascpipe.tf.feature_spec import FeatureSpec
from ascpipe.tf.insert import get_asc_insert_func

__all__ = ["FeatureSpec", "get_asc_insert_func"]
