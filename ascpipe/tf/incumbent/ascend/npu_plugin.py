"""Stand-ins for functions that start and stop an Ascend card. The stand-ins have no effect."""
from typing import Any


def npu_resource_init(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def npu_resource_shutdown() -> None:
    """Do nothing."""


def set_device_sat_mode(mode: int) -> None:
    """Do nothing. Floating-point numbers overflow to infinity, as in TensorFlow."""
