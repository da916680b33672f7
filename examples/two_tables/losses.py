"""A file with the losses of each step, so that two runs can be compared bit by bit."""
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf


class LossFile:
    """Writes a line for each step: what was done, and the loss of each task as a hexadecimal number.

    Args:
        path: of the file, or None to write nothing.
    """

    def __init__(self, path: Optional[str]) -> None:
        self._file = open(path, "w") if path else None  # noqa: SIM115  closed by the program

    def write(self, what: str, losses: List[Any]) -> None:
        """Write the losses of one step."""
        if self._file is not None:
            print(what, *(float(loss).hex() for loss in losses), file=self._file, flush=True)


class LossHook(tf.estimator.SessionRunHook):
    """Writes the losses of each step of an Estimator.

    Args:
        losses: the file.
        what: what the session does.
        loss_list: the losses of a batch.
    """

    def __init__(self, losses: LossFile, what: str, loss_list: List[tf.Tensor]) -> None:
        self._losses, self._what, self._loss_list = losses, what, loss_list

    def before_run(self, run_context: Any) -> tf.estimator.SessionRunArgs:
        """Ask for the losses."""
        return tf.estimator.SessionRunArgs(self._loss_list)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write them."""
        self._losses.write(self._what, run_values.results)
