"""Feature declaration and start of the pipeline."""
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.program.insert_function import get_asc_insert_func
from ascpipe.tf.starting.start_pipeline import start_asc_pipeline

__all__ = ["FeatureSpec", "get_asc_insert_func", "start_asc_pipeline"]
