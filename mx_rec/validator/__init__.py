"""Checks of arguments; not provided, as public functions check what they are given."""
from typing import NoReturn

from mx_rec import _missing


def __getattr__(name: str) -> NoReturn:
    _missing.refuse(__name__, name)
