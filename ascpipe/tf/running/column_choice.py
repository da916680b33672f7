"""Choice of the feature columns that get tables."""
import abc
import dataclasses
from typing import Dict, NamedTuple, Optional

from ascpipe.tf import internals
from ascpipe.tf.running.process import Process


class TableSizes(NamedTuple):
    """Sizes of the table of a column, as in ``create_table``.

    Attributes:
        device: ``device_vocabulary_size``; None for the number of buckets of the column.
        host: ``host_vocabulary_size``.
    """

    device: Optional[int] = None
    host: int = 0


class ColumnChoice(NamedTuple):
    """Arguments of ``use_for_feature_columns``.

    Attributes:
        min_buckets: minimum number of buckets of a column that gets a table.
        sizes: sizes of these tables.
    """

    min_buckets: int
    sizes: TableSizes


class Models(abc.ABC):
    """Switch between the pipelines of several Estimators, each of which has its own tables."""

    @abc.abstractmethod
    def begin(self, folder: str, mode: str) -> None:
        """Called before the model function of the Estimator with this ``model_dir``."""

    @abc.abstractmethod
    def end(self, folder: str) -> None:
        """Called after the model function."""


@dataclasses.dataclass
class Columns:
    """Feature columns of a process. Made by ``Columns.of``.

    Attributes:
        choice: the columns that get tables; None for none.
        told: unprinted reasons why a column has no table, by name of its variable; "" if it has one.
        printed: the reasons that were printed.
        models: set if the program has Estimators and uses only feature columns.
    """

    choice: Optional[ColumnChoice] = None
    told: Dict[str, str] = dataclasses.field(default_factory=dict)
    printed: Dict[str, str] = dataclasses.field(default_factory=dict)
    models: Optional[Models] = None

    @staticmethod
    def of(process: Process) -> "Columns":
        return internals.stored_on(process, "columns", Columns)
