"""Settings that decide which feature columns get tables."""
import abc
import dataclasses
from typing import Dict, Mapping, NamedTuple, Optional

from ascpipe.tf import internals
from ascpipe.tf.running.process import Process


class TableSizes(NamedTuple):
    """Sizes and initial rows of a column's table, as passed to ``create_table``.

    Attributes:
        device: ``device_vocabulary_size``, or None for the column's number of buckets.
        host: ``host_vocabulary_size``.
        pretrained: path of files with initial rows, or None.
    """

    device: Optional[int] = None
    host: int = 0
    pretrained: Optional[str] = None


class ColumnChoice(NamedTuple):
    """Arguments of ``use_for_feature_columns``.

    Attributes:
        min_buckets: minimum number of buckets of a column that gets a table.
        sizes: sizes of the columns' tables.
        take_over: True to convert a checkpoint of plain TensorFlow when it is restored.
        pretrained: variable name -> path of files with the initial rows of its table.
        export_ops: ops of the tables in the exports of Estimators, "ascpipe" or "stock".
    """

    min_buckets: int
    sizes: TableSizes
    take_over: bool = False
    pretrained: Mapping[str, str] = {}
    export_ops: str = "ascpipe"


class Models(abc.ABC):
    """Interface of ``ColumnModels``, which keeps the tables of several Estimators separate."""

    @abc.abstractmethod
    def begin(self, folder: str, mode: str) -> None:
        """Prepare for a call of an Estimator's model function. ``folder`` is the Estimator's model directory."""

    @abc.abstractmethod
    def end(self, folder: str) -> None:
        """Record the tables that the model function has created."""


@dataclasses.dataclass
class Columns:
    """Data about the feature columns of a process. ``Columns.of`` creates an object.

    Attributes:
        choice: settings of ``use_for_feature_columns``, or None if it was not called.
        told: variable name -> reason why the column has no table, or "" if it has a table. Items are removed when they
            are printed.
        printed: variable name -> printed reason.
        models: object that keeps the tables of Estimators separate, or None. It is set if the program uses only feature
            columns.
    """

    choice: Optional[ColumnChoice] = None
    told: Dict[str, str] = dataclasses.field(default_factory=dict)
    printed: Dict[str, str] = dataclasses.field(default_factory=dict)
    models: Optional[Models] = None

    @staticmethod
    def of(process: Process) -> "Columns":
        return internals.stored_on(process, "columns", Columns)
