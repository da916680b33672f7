"""Access to private attributes of TensorFlow's savers."""
from typing import Any, Callable, List, Tuple

import tensorflow as tf
from tensorflow.python.ops import variables


def all_saveable_objects() -> List[Any]:
    """Return the objects that a saver without ``var_list`` saves."""
    return list(variables._all_saveable_objects())


class SaverParts:
    """Access to the private attributes of a ``tf.train.Saver``."""

    def __init__(self, saver: tf.compat.v1.train.Saver) -> None:
        self._saver = saver

    @property
    def is_built(self) -> bool:
        """Return whether the ops of the saver were created."""
        return bool(self._saver._is_built or self._saver.saver_def)

    @property
    def is_empty(self) -> bool:
        """Return whether the saver was built without objects to save."""
        return bool(self._saver._is_empty)

    @property
    def allows_empty(self) -> bool:
        """Return whether TensorFlow accepts a saver without objects to save."""
        return bool(self._saver._allow_empty)

    def allow_empty(self) -> None:
        """Allow TensorFlow to build the saver even if the saver has no objects to save."""
        self._saver._allow_empty = True

    @property
    def items(self) -> Any:
        """Return ``var_list`` of the saver: a list, a dict, or None for all saveable objects."""
        return self._saver._var_list

    @items.setter
    def items(self, items: Any) -> None:
        self._saver._var_list = items

    def saved(self) -> Any:
        """Return the objects that the saver saves, as a list or dict."""
        return all_saveable_objects() if self.items is None else self.items

    @property
    def saves_relative_paths(self) -> bool:
        """Return whether the paths in the ``checkpoint`` file are relative to the directory of the file."""
        return bool(self._saver._save_relative_paths)

    def save_instead(self, items: List[Any], builder: Callable[[Any], Any]) -> None:
        """Make the saver save only ``items``. The result of ``builder(file version)`` will create the saver's ops."""
        self.items = items
        self._saver._builder = builder(self._saver._write_version)

    def forget_build(self) -> None:
        """Discard the ops of the saver, so that TensorFlow builds the saver again."""
        self._saver._is_built = False
        self._saver._is_empty = None
        self._saver.saver_def = None
        self._saver._builder = None

    @property
    def last_checkpoints(self) -> List[Tuple[str, float]]:
        """Return paths and times of the checkpoints that the saver keeps, oldest first."""
        return list(self._saver._last_checkpoints)

    def record(self, prefix: str) -> None:
        """Record the newest checkpoint, and select the checkpoints to delete."""
        self._saver._RecordLastCheckpoint(prefix)

    def delete_old(self, meta_graph_suffix: str) -> List[str]:
        """Delete TensorFlow's files of the oldest checkpoint if there are more checkpoints than ``max_to_keep``.

        Return a list with the path of this checkpoint. If no checkpoint must be deleted, return an empty list.
        """
        paths = [path for path, _ in self._saver._checkpoints_to_be_deleted[:1]]
        self._saver._MaybeDeleteOldCheckpoints(meta_graph_suffix=meta_graph_suffix)
        return paths
