"""Stand-ins for functions that start and stop an Ascend card. They have no effect."""
from typing import Any


def npu_resource_init(*args: Any, **kwargs: Any) -> None:
    """Return without an effect."""


def npu_resource_shutdown() -> None:
    """Return without an effect."""


def set_device_sat_mode(mode: int) -> None:
    """Return without an effect. Floating-point numbers overflow to infinity, as in TensorFlow."""
