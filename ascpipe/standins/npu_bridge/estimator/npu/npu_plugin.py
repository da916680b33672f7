"""Begin and end of a card."""
from ascpipe.tf.incumbent.ascend.npu_plugin import npu_resource_init, npu_resource_shutdown, set_device_sat_mode

__all__ = ["npu_resource_init", "npu_resource_shutdown", "set_device_sat_mode"]
