"""CustomizedFtrl."""
from typing import NoReturn

from ascpipe.tf.optimizers.ftrl import CustomizedFtrl, create_hash_optimizer
from mx_rec import _missing

__all__ = ["CustomizedFtrl", "create_hash_optimizer"]


def __getattr__(name: str) -> NoReturn:
    _missing.refuse(__name__, name)
