"""What ``ConfigInitializer.get_instance()`` has in parts: the incumbent's places for what is known elsewhere here.

Two of the incumbent's parts are empty: a FeatureSpec is known to the insert function that it was given to, and the slot
variables of a table are found in the graph.
"""
from typing import TYPE_CHECKING, Any, Dict, Optional

import tensorflow as tf

from ascpipe.tf.validation import Text

if TYPE_CHECKING:
    from ascpipe.tf.program.create_table import Table
    from ascpipe.tf.running.configuration import Configuration
    from ascpipe.tf.starting.start_pipeline import Pipeline


class SubConfig:
    """A part.

    Args:
        configuration: what it is a part of.
    """

    def __init__(self, configuration: "Configuration") -> None:
        self._configuration = configuration


class SparseEmbedConfig(SubConfig):
    """The tables of the default graph."""

    @property
    def table_instance_dict(self) -> Dict[Any, "Table"]:
        """Tables by their variables."""
        return {table.variable: table for table in self._tables().values()}

    def get_table_instance(self, variable: Any) -> "Table":
        """The table of a table variable. Raises ``KeyError``."""
        for table in self._tables().values():
            if table.variable is variable:
                return table
        raise KeyError("{!r} is the variable of no table of the default graph".format(
            getattr(variable, "name", variable)))

    def get_table_instance_by_name(self, table_name: str) -> "Table":
        """A table by its name. Raises ``KeyError``."""
        tables = self._tables()
        if table_name not in tables:
            raise KeyError("the default graph has no table {!r}; there are {}".format(
                table_name, ", ".join(sorted(map(repr, tables))) or "none"))
        return tables[table_name]

    def _tables(self) -> Dict[str, "Table"]:
        return self._configuration.of_graph(tf.compat.v1.get_default_graph()).tables


class HybridManagerConfig(SubConfig):
    """The pipeline."""

    @property
    def asc_manager(self) -> Optional["Pipeline"]:
        """The running pipeline, or None."""
        return self._configuration.pipeline

    @property
    def freeze(self) -> bool:
        """Whether tables and training lookups are complete."""
        return self._configuration.frozen


class TrainParamsConfig(SubConfig):
    """The collection of tables, and what graph modification has made."""

    @property
    def ascend_global_hashtable_collection(self) -> str:
        """Name of the collection that holds the variables of tables created from now on; 1 to 255 characters."""
        return self._configuration.hashtable_collection

    @ascend_global_hashtable_collection.setter
    def ascend_global_hashtable_collection(self, name: str) -> None:
        Text(1, 255).check("name", name)
        self._configuration.hashtable_collection = name

    @staticmethod
    def get_training_mode_channel_id(is_training: bool) -> int:
        """0 for training, 1 for evaluation."""
        return 0 if is_training else 1

    @staticmethod
    def get_initializer(is_training: bool) -> Optional[tf.Operation]:
        """The initializer of an iterator that graph modification has rebuilt, or None."""
        from ascpipe.tf.modify import iterator_initializers
        return iterator_initializers.get_initializer(is_training)

    @staticmethod
    def get_target_batch(is_training: bool) -> Any:
        """What the ``get_next()`` returned whose batches the channel looks up; None: it looks up none."""
        from ascpipe.tf.modify import iterators  # which needs the module that makes this
        return iterators.get_target_batch(is_training)
