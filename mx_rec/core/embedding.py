"""Tables and lookups."""
from typing import NoReturn

from ascpipe.tf.lookup import sparse_lookup
from ascpipe.tf.table import create_table
from mx_rec import _missing

__all__ = ["create_table", "sparse_lookup"]


def __getattr__(name: str) -> NoReturn:
    _missing.refuse(__name__, name)
