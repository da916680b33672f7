"""Host ops."""
from ascpipe.tf.incumbent.host_ops import import_host_pipeline_ops

__all__ = ["import_host_pipeline_ops"]
