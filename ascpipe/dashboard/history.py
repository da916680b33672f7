"""Class ``History``, which keeps the statistics of the last hour for the charts of the dashboard."""
import math
from array import array
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Sequence

TICK_S = 2.0  #: seconds between two points
POINTS = 1800  #: maximum number of points, an hour
MOST_TABLES = 64  #: further tables have no history
MOST_RANKS = 17  #: further ranks have no history

#: series of the whole training, by name: numbers per second, shares from 0 to 1, or numbers of batches
OVERVIEW = ("steps", "ids", "records", "step_waits", "device_hit_rate", "host_hit_rate", "rows_in", "rows_out",
            "rows_read", "rows_written", "depth")
OF_TABLE = ("ids", "device_hit_rate", "rows_in", "keys")  #: series of each table
OF_RANK = ("steps", "sent_bytes", "waited")  #: series of each rank of this machine

Values = Mapping[str, Optional[float]]


class _Columns:
    """Series of equal length. A missing value is NaN. Each value takes 4 bytes."""

    def __init__(self, names: Sequence[str], length: int) -> None:
        self._columns = {name: array("f", [math.nan]) * length for name in names}

    def add(self, values: Values) -> None:
        for name, column in self._columns.items():
            value = values.get(name)
            column.append(math.nan if value is None else value)
            del column[:-POINTS]

    def series(self) -> Dict[str, List[Optional[float]]]:
        return {name: [None if math.isnan(value) else float("{:.7g}".format(value)) for value in column]
                for name, column in self._columns.items()}


class History:
    """Points of the last hour. Memory is bounded, because the numbers of points, tables, ranks and series are limited.

    With 64 tables and 17 ranks, there are 11 + 64 * 4 + 17 * 3 series of 1800 values of 4 bytes, which take 2.3 MB.
    """

    def __init__(self) -> None:
        self._times = array("d")
        self._words: List[str] = []
        self._overview = _Columns(OVERVIEW, 0)
        self._tables: Dict[str, _Columns] = {}
        self._ranks: Dict[int, _Columns] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, time_s: float, bottleneck: str, overview: Values, tables: Mapping[str, Values],
            ranks: Mapping[int, Values] = MappingProxyType({})) -> None:
        """Add a point, and remove points that are older than one hour.

        Args:
            time_s: seconds since 1970.
            bottleneck: word for the bottleneck, or an empty string if the daemon does not answer.
            overview: values of ``OVERVIEW``. Missing values and None are gaps.
            tables: values of ``OF_TABLE``, by name of the table.
            ranks: values of ``OF_RANK``, by rank.
        """
        self._times.append(time_s)
        del self._times[:-POINTS]
        self._words = [*self._words[1 - POINTS:], bottleneck]
        self._overview.add(overview)
        for name in tables:
            if name not in self._tables and (len(self._tables) < MOST_TABLES or self._forget_one(tables)):
                self._tables[name] = _Columns(OF_TABLE, len(self._times) - 1)
        for name, columns in self._tables.items():
            columns.add(tables.get(name, {}))
        for rank in ranks:
            if rank not in self._ranks and len(self._ranks) < MOST_RANKS:
                self._ranks[rank] = _Columns(OF_RANK, len(self._times) - 1)
        for rank, columns in self._ranks.items():
            columns.add(ranks.get(rank, {}))

    def overview(self) -> Dict[str, Any]:
        """Return lists of equal length: ``time`` (seconds since 1970), ``bottleneck`` (one word per point) and
        ``series``.
        """
        return {"time": [round(time, 3) for time in self._times], "bottleneck": list(self._words),
                "series": self._overview.series()}

    def table(self, name: str) -> Optional[Dict[str, Any]]:
        """Return ``time`` and ``series`` of a table, or None if there is no history of this table."""
        columns = self._tables.get(name)
        return None if columns is None else {
            "time": [round(time, 3) for time in self._times], "series": columns.series()}

    def ranks(self) -> Dict[str, Any]:
        """Return ``time`` and ``series`` of all ranks. For example, the series ``steps 0`` has the steps of rank 0."""
        return {"time": [round(time, 3) for time in self._times],
                "series": {"{} {}".format(name, rank): values for rank, columns in sorted(self._ranks.items())
                           for name, values in columns.series().items()}}

    def _forget_one(self, present: Mapping[str, Values]) -> bool:
        """Remove the history of a table that no longer exists. Return False if all tables still exist."""
        gone = next((name for name in self._tables if name not in present), None)
        if gone is not None:
            del self._tables[gone]
        return gone is not None
