"""``CheckpointSaverHook``, a subclass of TensorFlow's hook that can save deltas and save in the background."""
import contextlib
import inspect
import os
import time
from typing import Any, Callable, Dict, Optional

import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointPathError, NoCheckpointError
from ascpipe.checkpoint.paths import place_of_save
from ascpipe.checkpoint.tree import open_place
from ascpipe.tf import patches
from ascpipe.tf.checkpoints.saving import wait_for_save
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import boolean


class CheckpointSaverHook(tf.compat.v1.train.CheckpointSaverHook):
    """Hook that saves checkpoints in a monitored session or an Estimator.

    After ``init(is_incremental_checkpoint=True, ...)``, the intervals of the hook are ignored. The hook saves a full
    checkpoint first and then every ``save_checkpoint_due_time`` seconds. Between full checkpoints, it saves a delta
    every ``save_delta_checkpoints_secs`` seconds. The hook also saves at the end. The saver is an
    ``ascpipe.tf.Saver`` or a ``tf.train.Saver``, whose methods ``init`` replaces.

    The other arguments are the same as for ``tf.train.CheckpointSaverHook``. An Estimator with this hook does not
    create another saver hook.

    Args:
        background_save: True to continue training while a checkpoint is written (see ``Saver.save``). The end of the
            session waits for the save. The argument has no effect if the hook has listeners, because listeners need a
            complete checkpoint. ``train_and_evaluate`` adds a listener.
    """

    _saver: Any  # set by TensorFlow's class

    def __init__(self, *args: Any, background_save: bool = False, **kwargs: Any) -> None:
        boolean().check("background_save", background_save)
        super().__init__(*args, **kwargs)
        self._in_background = background_save

    @patches.HOOK_BEGIN.by
    def begin(self) -> None:
        """Check the path before training, and read the intervals that the program passed to ``init``.

        Raises:
            CheckpointPathError: the graph has tables, and no checkpoint can be saved at this path.
        """
        require_place_of_saves(tf.compat.v1.get_default_graph(), self._save_path)
        if Process.is_initialised():
            configuration = Process.current().configuration
            if configuration.is_incremental_checkpoint:
                self._timer = _Timer(configuration.save_checkpoint_due_time, configuration.save_delta_checkpoints_secs)
        in_background = getattr(self, "_in_background", False) and not self._listeners  # unset in TensorFlow's hook
        given = self._saver

        def saver() -> Any:
            asking, self._saver = self._saver, given
            try:
                return self._get_saver()
            finally:
                self._saver = asking

        def asked() -> Dict[str, bool]:
            delta = isinstance(self._timer, _Timer) and not self._timer.begin_save()
            return {**({"save_delta": True} if delta else {}), **({"background": True} if in_background else {})}

        if (isinstance(self._timer, _Timer) or in_background) and not isinstance(given, _SaverWithArguments):
            self._saver = _SaverWithArguments(saver, asked)
        patches.HOOK_BEGIN.plain(self)

    def end(self, session: Any) -> None:
        """Save a checkpoint if steps were trained since the last save, and wait until the checkpoint is durable."""
        super().end(session)
        wait_for_save()


def require_place_of_saves(graph: tf.Graph, save_path: str) -> None:
    """Raise ``CheckpointPathError`` if a graph has tables and no checkpoint can be saved at ``save_path``."""
    state = GraphState.known(graph) if Process.is_initialised() else None
    if state is None or not state.tables:
        return
    place = place_of_save(*os.path.split(save_path), 0)
    with contextlib.suppress(NoCheckpointError):  # the first save creates the directory
        disk.close(open_place(place))
        if not os.access(place.directory, os.W_OK | os.X_OK):
            raise CheckpointPathError(place.directory, "it is not writable")


@patches.SUPERVISOR_INIT.by
def _make_supervisor(self: Any, *arguments: Any, **named: Any) -> None:
    """Replacement for a Supervisor's constructor that first checks whether checkpoints can be saved in the directory.

    Without this check, the first save would raise the error, ten minutes later in another thread.
    """
    plain = patches.SUPERVISOR_INIT.plain
    bound = inspect.signature(plain).bind(self, *arguments, **named)
    bound.apply_defaults()
    given = bound.arguments
    if given["is_chief"] and given["logdir"]:
        require_place_of_saves(given["graph"] or tf.compat.v1.get_default_graph(),
                               os.path.join(given["logdir"], given["checkpoint_basename"]))
    plain(self, *arguments, **named)


class _Timer:
    """Timer that decides when the hook saves, and whether the save is full."""

    def __init__(self, full_s: float, delta_s: float) -> None:
        self._full_s = full_s
        self._delta_s = delta_s
        self._full_at: Optional[float] = None
        self._saved_at = 0.0
        self._step: Optional[int] = None

    def begin_save(self) -> bool:
        """Return True if the save that starts now must be a full checkpoint."""
        now = time.monotonic()
        is_full = self._full_is_due(now)
        self._saved_at = now
        if is_full:
            self._full_at = now
        return is_full

    def should_trigger_for_step(self, step: int) -> bool:
        now = time.monotonic()
        return step != self._step and (self._full_is_due(now) or now >= self._saved_at + self._delta_s)

    def update_last_triggered_step(self, step: int) -> None:
        self._step = step

    def last_triggered_step(self) -> Optional[int]:
        return self._step

    def _full_is_due(self, now: float) -> bool:
        return self._full_at is None or now >= self._full_at + self._full_s


class _SaverWithArguments:
    """Wrapper of a hook's saver that passes additional arguments to ``save``.

    Args:
        saver: function that returns the saver. A hook finds the saver when its session begins.
        asked: function that returns the additional arguments of the next save.
    """

    def __init__(self, saver: Callable[[], Any], asked: Callable[[], Dict[str, bool]]) -> None:
        self._find = saver
        self._found: Any = None
        self._asked = asked

    @property
    def saver_def(self) -> Any:
        return self._saver().saver_def

    def save(self, session: Any, path: str, **named: Any) -> Any:
        """Call ``save`` of the saver with the additional arguments, or without these arguments after ``shutdown``."""
        asked = self._asked() if Process.is_initialised() else {}
        return self._saver().save(session, path, **named, **asked)

    def _saver(self) -> Any:
        self._found = self._found or self._find()
        return self._found
