"""Feature declaration and start of the pipeline."""
from ascpipe.tf.feature_spec import FeatureSpec
from ascpipe.tf.insert import get_asc_insert_func
from ascpipe.tf.pipeline import start_asc_pipeline

__all__ = ["FeatureSpec", "get_asc_insert_func", "start_asc_pipeline"]
