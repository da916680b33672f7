"""Rows of files as the initial content of a table."""
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import KeyBlock, Policies, TableSpec
from ascpipe.checkpoint.keys import belongs
from ascpipe.rows.columns import COUNT, KEY, ROW, SLOT, TIMESTAMP
from ascpipe.rows.merging import read_keys
from ascpipe.rows.sources import Part, Source, checked_parts


class FileTable:
    """Rows of files. The class provides the methods of ``Checkpoint`` that are needed to load one table.

    Args:
        source: opened files. Their columns fit the table.
        spec: spec of the table. Its numbers of rows are ignored.

    Attributes:
        prefix: path of the files.
        tables: name of the table -> spec of the rows. It contains only the optimizer slots that the files have.
        verified: always True, because all values were checked.

    Raises:
        RowsNotImportedError: a key occurs twice, or a value is not allowed.
        DamagedRowsError: a file is damaged or cannot be read.
        NoMemoryToReadError: the keys do not fit into memory.
    """

    verified = True

    def __init__(self, source: Source, spec: TableSpec) -> None:
        self.prefix = source.path
        self._source = source
        self._keys, latest = read_keys(source, spec, source.path, [name for name in source.columns if name != KEY])
        slots = tuple(slot for slot in spec.slots if SLOT + slot.name in source.columns)
        policies = Policies(-1, counting=False, faae_coefficient=1, eviction_threshold=-1, time=latest)
        self.tables: Dict[str, TableSpec] = {
            spec.name: spec._replace(slots=slots, rows=len(self._keys), candidates=0, initial=None, policies=policies)}

    def rows_of(self, table: str, rank: int = 0, ranks: int = 1) -> Tuple[int, int]:
        """Return the counts of a rank's keys with and without a row. Each key of the files has a row."""
        return int(belongs(self._keys, rank, ranks).sum()), 0

    def keys_with_rows(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        """Yield the keys of a rank, in the order of the files. Counts and timestamps that the files do not contain are
        0.
        """
        columns = [name for name in (COUNT, TIMESTAMP) if name in self._source.columns]
        for part, mine in self._parts(table, columns, rank, ranks):
            nothing = np.zeros(len(part.keys), np.int64)
            yield KeyBlock(part.keys[mine], part.values.get(COUNT, nothing)[mine],
                           part.values.get(TIMESTAMP, nothing)[mine])

    def candidates(self, table: str, rank: int = 0, ranks: int = 1) -> Iterator[KeyBlock]:
        """Yield nothing, because each key of the files has a row."""
        return iter(())

    def row_parts(self, table: str, targets: Any, rank: int = 0, ranks: int = 1) -> Iterator[Sequence[np.ndarray]]:
        """Yield the rows and optimizer slots of a rank's keys, in the order of ``keys_with_rows``.

        Raises:
            DamagedRowsError: a file has changed since it was opened.
        """
        columns = [ROW, *(SLOT + slot.name for slot in self.tables[table].slots)]
        for part, mine in self._parts(table, columns, rank, ranks):
            yield [part.values[name][mine] for name in columns]
        self._source.check_unchanged()

    def pool(self, table: str) -> Optional[np.ndarray]:
        """Return None, because files contain no pool of initial rows."""
        return None

    def _parts(self, table: str, columns: Sequence[str], rank: int, ranks: int) -> Iterator[Tuple[Part, Any]]:
        for part in checked_parts(self._source, self.tables[table], columns):
            yield part, slice(None) if ranks == 1 else belongs(part.keys, rank, ranks)
