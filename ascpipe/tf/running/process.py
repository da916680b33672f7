"""``init``, ``terminate_config_initializer``, and the state of this process between the two calls.

The ``Process`` owns all state that outlives a graph, including the pipeline.
"""
import atexit
import contextlib
import itertools
import logging
import os
from typing import Any, Callable, ClassVar, Iterator, List, Optional, Set

from ascpipe import names
from ascpipe.control import trainer_link
from ascpipe.errors import ArgumentError, CallOrderError, InitializationError, UnsupportedTensorFlowError, api_names
from ascpipe.tf import internals, patches
from ascpipe.tf.running import native
from ascpipe.tf.running.configuration import Configuration, checked_configuration, unknown_arguments
from ascpipe.tf.running.deferred_starts import DeferredStarts
from ascpipe.tf.running.pipeline import Pipeline

_log = logging.getLogger(__name__)


class Process:
    """State of this process between ``init`` and ``terminate_config_initializer``.

    Attributes:
        configuration: the arguments of ``init``.
        deferred: graphs whose pipeline has not started yet.
        is_plain: True if the program uses ``ascpipe.tf`` instead of Rec SDK's names.
        warned: names of warnings that were already logged.
    """

    _current: ClassVar[Optional["Process"]] = None

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.pipeline: Optional[Pipeline] = None
        self.deferred = DeferredStarts()
        self.stream_numbers: Iterator[int] = itertools.count()
        self.is_plain = False
        self.warned: Set[str] = set()
        self._begun: Optional[trainer_link.Begun] = None
        self._expects_pipeline = False
        self._at_end: List[Callable[[], None]] = []

    @staticmethod
    def current() -> "Process":
        """Return the ``Process`` that ``init`` created. Raise ``EnvironmentError`` if ``init`` was not called."""
        if Process._current is None:
            raise InitializationError("ascpipe is not initialized. Call asc.init() first")
        return Process._current

    @staticmethod
    def known() -> Optional["Process"]:
        """Return the ``Process``, or None before ``init`` and after ``terminate_config_initializer``."""
        return Process._current

    @staticmethod
    def is_initialised() -> bool:
        """Return whether ``init`` was called, and ``terminate_config_initializer`` was not called afterwards."""
        return Process._current is not None

    @property
    def frozen(self) -> bool:
        """Return whether the pipeline runs, or starts with the next run of a session."""
        return self.pipeline is not None or bool(self.deferred.graphs())

    def is_first(self, warning: str) -> bool:
        """Return whether this is the first call with the name of a warning, and record the name."""
        is_first = warning not in self.warned
        self.warned.add(warning)
        return is_first

    def expect_pipeline(self) -> None:
        """Start the private daemon early, if the pipeline will use a private daemon.

        Only the first call has an effect. If `ascpipe plan` runs the program, no pipeline and no daemon start.
        """
        if not self._expects_pipeline and names.PLAN_VARIABLE not in os.environ:
            self._expects_pipeline = True
            self._begun = trainer_link.begin(self.configuration.daemon)

    def take_begun(self) -> Optional[trainer_link.Begun]:
        """Return the daemon that was started early, or None if there is no such daemon. The caller owns the returned
        daemon.
        """
        begun, self._begun = self._begun, None
        return begun

    def running_pipeline(self) -> Pipeline:
        """Return the running pipeline. If no pipeline is running, start the marked graphs first.

        Raise ``RuntimeError`` if no graph is marked.
        """
        if self.pipeline is None:
            self.deferred.start_all()
        if self.pipeline is None:
            raise CallOrderError("The pipeline has not started. Call asc.start() first")
        return self.pipeline

    def at_end(self, end: Callable[[], None]) -> None:
        """Register a function that ``close`` calls. The functions are called in reverse order of registration."""
        self._at_end.append(end)

    def close(self) -> None:
        """Call all functions that ``at_end`` registered, even if some functions fail, and undo the patches."""
        self.deferred.drop()
        with contextlib.ExitStack() as ends:
            ends.callback(patches.undo)
            begun = self.take_begun()
            if begun is not None:
                ends.callback(begun.end)
            for end in self._at_end:
                ends.callback(end)
            self._at_end = []
        self.pipeline = None

    @staticmethod
    def begin(configuration: Configuration) -> "Process":
        """Create the ``Process`` that ``current`` returns.

        Raise ``EnvironmentError`` if it already exists, or if TensorFlow has the behavior of TensorFlow 2.
        """
        if internals.has_v2_behavior():
            raise InitializationError(
                "asc.init() was called while TensorFlow has the behavior of TensorFlow 2, but tables need graphs and "
                "sessions. Nothing was started. Add this line after the import of TensorFlow: "
                "tf.compat.v1.disable_v2_behavior() (docs/how-to/tensorflow2.md)")
        if Process._current is not None:
            raise InitializationError("asc.init() was already called. Call asc.shutdown() first. To build the model "
                                      "again, as in a notebook, call asc.reset()")
        Process._current = Process(configuration)
        return Process._current

    @staticmethod
    def take_current() -> Optional["Process"]:
        """Unset the current ``Process``, and return the object, or None if there was no current ``Process``. The caller
        must close the result.
        """
        process, Process._current = Process._current, None
        return process


def init(*use_mpi: bool, **kwargs: Any) -> None:
    """Initialize ascpipe in this process.

    The keyword arguments are the arguments of ``init`` in all versions of Rec SDK. Step counts and performance hints
    have no effect. Unknown arguments are ignored with a warning.

    Args:
        use_mpi: first argument in older versions of Rec SDK. It has no effect.
        use_dynamic: bool, default True. If True, batches may have any shape. If False, each lookup needs a
            ``send_count``.
        use_dynamic_expansion: bool, default False. True makes all tables expansion tables. Expansion tables have no
            fixed size, are trained in host memory, and need optimizers ``by_address``.
        if_load: bool, default False. True means that the program will restore a checkpoint.
        max_steps: int in [-1, 2147483647], default -1. The value does not need to be correct.
        train_steps: like ``max_steps``.
        eval_steps: like ``max_steps``.
        save_steps: like ``max_steps``.
        is_incremental_checkpoint: bool, default False. If True, hooks save a full checkpoint every
            ``save_checkpoint_due_time`` seconds and a delta every ``save_delta_checkpoints_secs`` seconds. The two
            intervals are then required. They are ints in [1, 2147483647].
        recent_key_count_threshold: int in [0, 2147483647], default 0. A delta omits keys that occurred fewer times
            since they were last saved.
        restore_model_version: int in [0, 2147483647], step of the checkpoint that the first restore uses.
        daemon: str, name of a running daemon. The default is ``$ASCPIPE_NAME``. Without this variable, ascpipe uses the
            daemon ``default`` if it is free. Otherwise, ascpipe starts a private daemon. With several ranks,
            ``{local_rank}`` is replaced by the number of the rank on its machine.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or ``max_steps``, ``train_steps`` and
            ``eval_steps`` are all 0.
        EnvironmentError: ``init`` was called before, without ``terminate_config_initializer``.
        NotRunningError: no daemon with this name runs.
    """
    if len(use_mpi) > 1:
        raise ArgumentError("asc.init() has one positional argument, use_mpi, but received {}: {!r}. Pass all others "
                            "by name".format(len(use_mpi), use_mpi))
    kwargs.update(zip(("use_mpi",), use_mpi))
    configuration = checked_configuration(kwargs)
    if configuration.daemon is not None:
        trainer_link.require(configuration.daemon)
    process = Process.begin(configuration)
    try:
        patches.apply()
    except UnsupportedTensorFlowError:
        Process.take_current()
        patches.undo()
        raise
    native.register_ops()
    api_names.use(rec_sdk=True)
    native.begin_program()
    unknown = unknown_arguments(kwargs)
    if unknown:
        _log.warning("%s", api_names.in_names_of_program(
            "asc.init(): unknown arguments are ignored: {}".format(", ".join(unknown))))
    _export_rank(process.configuration)
    atexit.register(terminate_config_initializer)


def terminate_config_initializer() -> None:
    """Shut down the pipeline. Afterwards, ``init`` may be called again. A second shutdown only logs a warning."""
    process = Process.take_current()
    atexit.unregister(terminate_config_initializer)
    if process is None:
        _log.warning("%s", api_names.in_names_of_program(
            "asc.shutdown(): nothing to shut down, because asc.init() was not called"))
        return
    process.close()


def _export_rank(configuration: Configuration) -> None:
    """Set the same environment variables as Rec SDK's ``init``. Existing values are not changed."""
    rank = str(configuration.rank_id)
    for variable, value in (("RANK_ID", rank), ("DEVICE_ID", rank), ("ASCEND_DEVICE_ID", rank),
                            ("DEVICE_INDEX", rank), ("JOB_ID", "10086")):
        os.environ.setdefault(variable, value)
