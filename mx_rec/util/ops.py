"""Host ops."""
from ascpipe.tf.later import import_host_pipeline_ops

__all__ = ["import_host_pipeline_ops"]
