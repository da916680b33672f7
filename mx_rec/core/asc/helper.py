"""Insert function for ``dataset.map``."""
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.program.insert_function import get_asc_insert_func

__all__ = ["FeatureSpec", "get_asc_insert_func"]
