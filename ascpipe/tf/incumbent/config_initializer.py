"""Rec SDK's ``ConfigInitializer``, which gives access to the arguments of ``init`` and to the running pipeline.

``feature_spec_config`` and ``optimizer_config`` are empty, because insert functions store the FeatureSpecs, and tables
store their slot variables.
"""
from typing import Any, ClassVar, Dict, Optional

import tensorflow as tf

from ascpipe.errors import MissingFromGraphError
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.incumbent.host_ops import HostOps, import_host_pipeline_ops
from ascpipe.tf.modify import iterators
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process, init
from ascpipe.tf.validation import Text


class SubConfig:
    """Value of an attribute ``*_config`` of ``ConfigInitializer``. Programs may add attributes to this object."""

    def __init__(self, process: Process) -> None:
        self._process = process


class SparseEmbedConfig(SubConfig):
    """Access to the tables of the default graph."""

    @property
    def table_instance_dict(self) -> Dict[Any, Table]:
        """Return a dict: variable of a table -> table."""
        return {table.variable: table for table in self._tables().values()}

    def get_table_instance(self, variable: Any) -> Table:
        """Return the table to which a variable belongs. Raise ``MissingFromGraphError`` for other variables."""
        for table in self._tables().values():
            if table.variable is variable:
                return table
        raise MissingFromGraphError("{!r} is not the variable of a table of the default graph".format(
            getattr(variable, "name", variable)))

    def get_table_instance_by_name(self, table_name: str) -> Table:
        """Return the table with the name ``table_name``. Raise ``MissingFromGraphError`` if the default graph has no
        such table.
        """
        tables = self._tables()
        if table_name not in tables:
            raise MissingFromGraphError("The default graph has no table {!r}. Its tables are: {}".format(
                table_name, ", ".join(sorted(map(repr, tables))) or "none"))
        return tables[table_name]

    @staticmethod
    def _tables() -> Dict[str, Table]:
        return GraphState.of(tf.compat.v1.get_default_graph()).tables


class HybridManagerConfig(SubConfig):
    """Access to the pipeline."""

    @property
    def asc_manager(self) -> Optional[Pipeline]:
        """Return the running pipeline, or None if no pipeline runs."""
        return self._process.pipeline

    @property
    def freeze(self) -> bool:
        """Return whether the pipeline runs or starts with the next run of a session."""
        return self._process.frozen


class TrainParamsConfig(SubConfig):
    """Access to the collection of table variables and to the results of graph modification."""

    @property
    def ascend_global_hashtable_collection(self) -> str:
        """Return the name of the collection for variables of new tables, 1 to 255 characters."""
        return self._process.configuration.hashtable_collection

    @ascend_global_hashtable_collection.setter
    def ascend_global_hashtable_collection(self, name: str) -> None:
        Text(1, 255).check("name", name)
        self._process.configuration.hashtable_collection = name

    @staticmethod
    def get_training_mode_channel_id(is_training: bool) -> int:
        """Return 0 for training, or 1 for evaluation."""
        return 0 if is_training else 1

    @staticmethod
    def get_initializer(is_training: bool) -> Optional[tf.Operation]:
        """Return the op that initializes the iterators of a channel, or None (see ``modify/iterators.py``)."""
        return iterators.get_initializer(is_training)

    @staticmethod
    def get_target_batch(is_training: bool) -> Any:
        """Return the batch whose ids are looked up in a channel, or None (see ``modify/iterators.py``)."""
        return iterators.get_target_batch(is_training)


class ConfigInitializer:
    """Object whose attributes are the arguments of ``init``. The object also provides access to the pipeline.

    The attributes ``*_config`` return tables, the pipeline and results of graph modification.
    """

    _current: ClassVar[Optional["ConfigInitializer"]] = None

    process: Process

    def __init__(self, process: Process) -> None:
        vars(self).update(
            process=process, sparse_embed_config=SparseEmbedConfig(process),
            hybrid_manager_config=HybridManagerConfig(process), train_params_config=TrainParamsConfig(process),
            feature_spec_config=SubConfig(process), optimizer_config=SubConfig(process))

    @staticmethod
    def get_instance() -> "ConfigInitializer":
        """Return the ``ConfigInitializer`` that the last call of ``init`` created. Raise ``EnvironmentError`` if
        ``init`` was not called.
        """
        process = Process.current()
        current = ConfigInitializer._current
        if current is None or current.process is not process:
            current = ConfigInitializer._current = ConfigInitializer(process)
        return current

    @staticmethod
    def set_instance(**kwargs: Any) -> None:
        """Call ``init``."""
        init(**kwargs)

    @property
    def host_pipeline_ops(self) -> HostOps:
        """Return the result of ``import_host_pipeline_ops``. Older programs use this property."""
        return import_host_pipeline_ops()

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["process"].configuration, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.process.configuration, name, value)
