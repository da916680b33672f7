"""Begin and end of a card; there is none."""
from typing import Any


def npu_resource_init(*args: Any, **kwargs: Any) -> None:
    """Nothing."""


def npu_resource_shutdown() -> None:
    """Nothing."""


def set_device_sat_mode(mode: int) -> None:
    """Nothing: floating-point numbers overflow to infinity, as in TensorFlow."""
