"""TSV files with rows: a key, a tab, and the floats of the row, separated by spaces."""
import functools
import re
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence

import numpy as np

from ascpipe.checkpoint.checks import MAX_WIDTH
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.rows.columns import KEY, ROW
from ascpipe.rows.sources import Part, Source, Wrong, block_rows, check_columns, head_of, widths_of

_NUMBER_BYTES = 64  #: maximum length of a number in a line
_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}\Z")
_INT64 = (-(1 << 63), (1 << 63) - 1)


class TsvRows(Source):
    """Rows of a TSV file.

    Args:
        path: path of the file or directory that the user passed.
        file: path of the file.
        spec: table into which the rows are imported.
        columns: columns of the file, which the manifest of an export lists.
    """

    def __init__(self, path: str, file: str, spec: TableSpec, columns: Sequence[str] = (KEY, ROW)) -> None:
        super().__init__(path)
        self.columns = list(columns)
        check_columns(self, spec)
        self._file = file
        self._widths = [widths_of(spec)[name] for name in columns]
        self._block_rows = block_rows(spec)
        self._fd = self.opened(file)

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """Yield the rows. See ``Source.parts``."""
        wrong = Wrong()
        chosen = [self.columns.index(name) for name in [KEY, *columns]]
        limit = _NUMBER_BYTES * (sum(self._widths) + len(self._widths))
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            number = 1
            while True:
                lines = self._lines(file, limit, number)
                if not lines:
                    break
                cells: Dict[int, List[Any]] = {place: [] for place in chosen}
                for index, line in enumerate(lines, number):
                    try:
                        for place, value in zip(chosen, self._parsed(line, chosen)):
                            cells[place].append(value)
                    except ValueError as error:
                        wrong.add("line {} of {}".format(index, self._file), str(error))
                if wrong.count == 0:
                    yield Part({self.columns[place]: self._array(cells[place], place) for place in chosen},
                               functools.partial(_line, self._file, number))
                number += len(lines)
        wrong.raise_if_any(self)

    def _lines(self, file: BinaryIO, limit: int, number: int) -> List[bytes]:
        lines: List[bytes] = []
        for line in iter(lambda: file.readline(limit + 1), b""):
            if len(line) > limit:
                raise self.damaged("line {} of {}".format(number + len(lines), self._file),
                                   "it has more than {} bytes".format(limit))
            lines.append(line)
            if len(lines) == self._block_rows:
                break
        return lines

    def _parsed(self, line: bytes, chosen: Sequence[int]) -> List[Any]:
        fields = line.rstrip(b"\r\n").split(b"\t")
        if len(fields) != len(self._widths):
            raise ValueError("it has {} columns, expected {}: {}{}".format(
                len(fields), len(self._widths), ", ".join(self.columns),
                "" if len(self._widths) > 2 else ". Only the manifest of an export names further columns"))
        found: List[Any] = []
        for place in chosen:
            width = self._widths[place]
            found.append(_floats(fields[place], width) if width else _integer(fields[place]))
        return found

    def _array(self, cells: List[Any], place: int) -> np.ndarray:
        if not self._widths[place]:
            return np.array(cells, np.int64)
        with np.errstate(over="ignore"):
            return np.array(cells, np.float64).astype(np.float32)


def dim_of_tsv(path: str) -> Optional[int]:
    """Return the number of floats in the first row of a TSV file, or None if the number is unknown."""
    fields = head_of(path, _NUMBER_BYTES * (MAX_WIDTH + 1)).split(b"\n", 1)[0].rstrip(b"\r").split(b"\t")
    return None if len(fields) < 2 else fields[1].count(b" ") + 1


def _line(file: str, first: int, row: int) -> str:
    return "line {} of {}".format(first + row, file)


def _integer(field: bytes) -> int:
    if not _INTEGER.match(field) or not _INT64[0] <= int(field) <= _INT64[1]:
        raise ValueError("{!r} is not an int64".format(field.decode("latin-1")[:40]))
    return int(field)


def _floats(field: bytes, width: int) -> List[float]:
    texts = field.split(b" ")
    if len(texts) != width:
        raise ValueError("it has {} floats, but the table has {}".format(len(texts), width))
    if b"_" in field:  # Python accepts 1_000
        raise ValueError("a number has an underscore")
    try:
        return list(map(float, texts))
    except ValueError as error:
        raise ValueError(str(error)[:100]) from error
