"""FTRL variants of older versions; not provided."""
from typing import NoReturn

from mx_rec import _missing


def __getattr__(name: str) -> NoReturn:
    _missing.refuse(__name__, name)
