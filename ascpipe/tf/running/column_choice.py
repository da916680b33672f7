"""Which feature columns of a program get tables, and of what size."""
import abc
import dataclasses
from typing import Dict, NamedTuple, Optional

from ascpipe.tf import internals
from ascpipe.tf.running.process import Process


class TableSizes(NamedTuple):
    """Sizes of the table behind a column, as ``create_table`` has them.

    Attributes:
        device: ``device_vocabulary_size``; None: as many rows as the column has buckets.
        host: ``host_vocabulary_size``.
    """

    device: Optional[int] = None
    host: int = 0


class ColumnChoice(NamedTuple):
    """What ``use_for_feature_columns`` was given.

    Attributes:
        min_buckets: a column of TensorFlow with this many buckets or more gets a table.
        sizes: of these tables.
    """

    min_buckets: int
    sizes: TableSizes


class Models(abc.ABC):
    """What begins the pipeline of one Estimator and ends that of another, where each has tables of its own."""

    @abc.abstractmethod
    def begin(self, folder: str, mode: str) -> None:
        """Called before the model function of the Estimator of a folder."""

    @abc.abstractmethod
    def end(self, folder: str) -> None:
        """Called after it."""


@dataclasses.dataclass
class Columns:
    """The feature columns of the program of a process. Made by ``Columns.of``.

    Attributes:
        choice: which of TensorFlow's get tables; None: none.
        told: by name of a column's variable, why no table stands for it; empty: one does. Until it is printed.
        printed: the same, once it is.
        models: knows the Estimators of a program that knows columns alone; else None.
    """

    choice: Optional[ColumnChoice] = None
    told: Dict[str, str] = dataclasses.field(default_factory=dict)
    printed: Dict[str, str] = dataclasses.field(default_factory=dict)
    models: Optional[Models] = None

    @staticmethod
    def of(process: Process) -> "Columns":
        """Return the choice of a process."""
        return internals.kept_on(process, "columns", Columns)
