"""Interface for access to rows of a running pipeline's tables. ``checkpoints/live_rows.py`` implements the interface.
"""
from typing import Any, Iterator, Mapping, NamedTuple, Optional

import numpy as np


class TableRows(NamedTuple):
    """Keys and rows of a table in the state between two training steps.

    Attributes:
        keys: int64[n].
        rows: float32[n, dim]. NaN for a key without a row.
        found: bool[n], False for a key without a row.
        counts: int64[n], number of occurrences of each key, or 0 if they are not counted.
        timestamps: int64[n], timestamp of the last occurrence of each key, or 0 if batches have no timestamps.
        slots: name of each optimizer slot -> float32[n, width]. NaN for a key without a row.
    """

    keys: np.ndarray
    rows: np.ndarray
    found: np.ndarray
    counts: np.ndarray
    timestamps: np.ndarray
    slots: Mapping[str, np.ndarray]


class RowAccess:
    """Interface that reads and changes rows between two training steps. ``Table`` documents the methods."""

    def read(self, table: str, keys: Any) -> TableRows:
        raise NotImplementedError

    def items(self, table: str, block: int) -> Iterator[TableRows]:
        raise NotImplementedError

    def assign(self, table: str, keys: Any, rows: Any, slots: Optional[Mapping[str, Any]]) -> None:
        raise NotImplementedError

    def delete(self, table: str, keys: Any) -> int:
        raise NotImplementedError

    def freeze(self, table: str, *, frozen: bool) -> None:
        raise NotImplementedError
