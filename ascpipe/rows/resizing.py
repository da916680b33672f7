"""Padding or truncation of rows from files to the dimension of the table."""
from typing import Iterator, NamedTuple, Sequence

import numpy as np

from ascpipe.checkpoint.checks import MAX_WIDTH
from ascpipe.checkpoint.contents import TableSpec
from ascpipe.rows.columns import ROW, SLOT
from ascpipe.rows.sources import Part, Source


class Fit(NamedTuple):
    """Rule for rows whose dimension differs from the dimension of the table.

    Attributes:
        pad: True to append zeros to shorter rows.
        truncate: True to drop the last floats of longer rows.
    """

    pad: bool = False
    truncate: bool = False

    def allows(self, dim: int, wanted: int) -> bool:
        """Return whether rows of ``dim`` floats may be padded or truncated to ``wanted`` floats."""
        return 0 < dim <= MAX_WIDTH and (self.pad if dim < wanted else self.truncate and dim > wanted)


NO_FIT = Fit()  #: rows of another dimension are an error


def spec_of_files(spec: TableSpec, dim: int) -> TableSpec:
    """Return a copy of a table spec with the dimension ``dim``. The width of optimizer slots that are as wide as a row
    is also set to ``dim``.
    """
    return spec._replace(dim=dim, slots=tuple(
        slot._replace(width=dim) if slot.width == spec.dim else slot for slot in spec.slots))


class ResizedRows(Source):
    """Source that pads or truncates the rows of ``source`` to the dimension of the table.

    A row is padded with zeros. An optimizer slot as wide as a row is padded with its initial value.

    Args:
        source: rows with the dimension of the files. ``ResizedRows`` closes the source.
        spec: table into which the rows are imported.
    """

    def __init__(self, source: Source, spec: TableSpec) -> None:
        super().__init__(source.path)
        self.columns = source.columns
        self.titles = source.titles
        self._source = source
        self._widths = {ROW: spec.dim, **{SLOT + slot.name: slot.width for slot in spec.slots}}
        self._padding = {SLOT + slot.name: slot.initial or 0.0 for slot in spec.slots}

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """Yield the rows. See ``Source.parts``."""
        for part in self._source.parts(columns):
            yield part._replace(values={name: self._resized(name, values) for name, values in part.values.items()})

    def check_unchanged(self) -> None:
        """Raise ``DamagedRowsError`` if a file has changed since it was opened."""
        self._source.check_unchanged()

    def close(self) -> None:
        """Close the files."""
        self._source.close()

    def _resized(self, name: str, values: np.ndarray) -> np.ndarray:
        width = self._widths.get(name, 0)
        if not width or values.shape[1] == width:
            return values
        if values.shape[1] > width:
            return self._truncated(values, width)
        resized = np.full((len(values), width), self._padding.get(name, 0.0), np.float32)
        resized[:, :values.shape[1]] = values
        return resized

    @staticmethod
    def _truncated(values: np.ndarray, width: int) -> np.ndarray:
        kept = values[:, :width].copy()
        kept[~np.isfinite(values).all(axis=1)] = np.nan  # values that are dropped must be valid, too
        return kept
