"""Host ops."""
from ascpipe.tf import patches
from ascpipe.tf.incumbent.host_ops import import_host_pipeline_ops

__all__ = ["import_host_pipeline_ops"]

patches.HOST_OPS.use()
