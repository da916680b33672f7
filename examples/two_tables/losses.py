"""File with the losses of each step. Two runs can thereby be compared bit by bit."""
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf


class LossFile:
    """Writer of a line for each step: the kind of step, and the loss of each task as a hexadecimal number.

    Args:
        path: path of the file. None means that nothing is written.
    """

    def __init__(self, path: Optional[str]) -> None:
        self._file = open(path, "w") if path else None  # noqa: SIM115  closed by the program

    def write(self, what: str, losses: List[Any]) -> None:
        """Write the losses of one step."""
        if self._file is not None:
            print(what, *(float(loss).hex() for loss in losses), file=self._file, flush=True)


class LossHook(tf.estimator.SessionRunHook):
    """Hook that writes the losses of each step of an Estimator.

    Args:
        losses: file of the losses.
        what: kind of step.
        loss_list: losses of a batch.
    """

    def __init__(self, losses: LossFile, what: str, loss_list: List[tf.Tensor]) -> None:
        self._losses, self._what, self._loss_list = losses, what, loss_list

    def before_run(self, run_context: Any) -> tf.estimator.SessionRunArgs:
        """Return the losses as arguments of the session."""
        return tf.estimator.SessionRunArgs(self._loss_list)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write the losses."""
        self._losses.write(self._what, run_values.results)
