"""``init``, its end, and the state of this process in between.

Everything that outlives a graph hangs on the ``Process``; ``terminate_config_initializer`` drops it, and the pipeline
with it.
"""
import atexit
import contextlib
import itertools
import logging
import os
from typing import Any, Callable, ClassVar, Iterator, List, Optional, Set

from ascpipe.control import trainer_link
from ascpipe.errors import api_names
from ascpipe.tf import patches
from ascpipe.tf.running import native
from ascpipe.tf.running.configuration import Configuration, checked_configuration, unknown_arguments
from ascpipe.tf.running.deferred_starts import DeferredStarts
from ascpipe.tf.running.pipeline import Pipeline

_log = logging.getLogger(__name__)


class Process:
    """The state of this process between ``init`` and ``terminate_config_initializer``.

    Attributes:
        configuration: what ``init`` was given.
        pipeline: the running one, or None.
        deferred: graphs whose pipeline is still to start.
        stream_numbers: gives the numbers of streams.
        is_plain: whether the program calls ``ascpipe.tf``, and not the incumbent's names.
        warned: names of the warnings that were logged once.
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
        """The process that ``init`` made. Raises ``EnvironmentError`` before ``init``."""
        if Process._current is None:
            raise OSError("ascpipe is not initialised: call init() first")
        return Process._current

    @staticmethod
    def is_initialised() -> bool:
        """Whether there is a ``current`` one."""
        return Process._current is not None

    @property
    def frozen(self) -> bool:
        """Whether the pipeline runs, or starts with the next run of a session."""
        return self.pipeline is not None or bool(self.deferred.graphs())

    def is_first(self, warning: str) -> bool:
        """Return whether a warning, by its name, is due for the first time in this process."""
        is_first = warning not in self.warned
        self.warned.add(warning)
        return is_first

    def expect_pipeline(self) -> None:
        """Let a private daemon, if the pipeline takes one, begin to load beside the program; once."""
        if not self._expects_pipeline:
            self._expects_pipeline = True
            self._begun = trainer_link.begin(self.configuration.daemon)

    def take_begun(self) -> Optional[trainer_link.Begun]:
        """The daemon that was begun, if any; the caller owns it from now on."""
        begun, self._begun = self._begun, None
        return begun

    def running_pipeline(self) -> Pipeline:
        """The pipeline, which starts now if a graph waits. Raises ``RuntimeError`` before ``start_asc_pipeline``."""
        if self.pipeline is None:
            self.deferred.start_all()
        if self.pipeline is None:
            raise RuntimeError("the pipeline does not run: call ascpipe.tf.start(), or start_asc_pipeline(), first")
        return self.pipeline

    def at_end(self, end: Callable[[], None]) -> None:
        """Let ``close`` call ``end``, the last one first."""
        self._at_end.append(end)

    def close(self) -> None:
        """Call what ``at_end`` was given, all of it whatever fails, and undo the patches; the first error goes up."""
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
        """Make the ``current`` process. Raises ``EnvironmentError`` where there is one."""
        if Process._current is not None:
            raise OSError("init() was called before; call terminate_config_initializer() first, or, to build the model "
                          "again as in a notebook, ascpipe.tf.reset()")
        Process._current = Process(configuration)
        return Process._current

    @staticmethod
    def take_current() -> Optional["Process"]:
        """The ``current`` process, to be closed; from now on there is none."""
        process, Process._current = Process._current, None
        return process


def init(*use_mpi: bool, **kwargs: Any) -> None:
    """Start using ascpipe in this process.

    The keyword arguments are those of the incumbent, of its newer and older versions; step counts and
    performance hints are accepted without effect, others that it does not know are ignored with a warning.

    Args:
        use_mpi: what older versions take first, without effect.
        use_dynamic: bool, True: batches of any shape; False: each lookup names a ``send_count``.
        use_dynamic_expansion: bool, False: tables have no size: their rows live in host memory and are used there, and
            optimizers are those by address.
        if_load: bool, False: whether a checkpoint will be restored.
        max_steps, train_steps, eval_steps, save_steps: int in [-1, 2147483647], -1; need not be right.
        is_incremental_checkpoint: bool, False: hooks save a full checkpoint each ``save_checkpoint_due_time`` seconds
            and a delta each ``save_delta_checkpoints_secs`` seconds, ints in [1, 2147483647] that are then needed.
        recent_key_count_threshold: int in [0, 2147483647], 0: keys that occurred fewer times since they were saved
            last stay out of a delta.
        restore_model_version: int in [0, 2147483647]: the step of the checkpoint that the first restore takes.
        daemon: str: name of the daemon to use, which must run; else ``$ASCPIPE_NAME``, else the one named
            ``default`` if it is free, else a private one. With several ranks ``{local_rank}`` in it is the number of
            the rank among those of its machine.

    Raises:
        ValueError: an argument of the wrong type or out of range; max, train and eval steps all 0.
        EnvironmentError: ``init`` was called before, and not ended.
        NotRunningError: no daemon of the name runs.
    """
    if len(use_mpi) > 1:
        raise ValueError("init takes use_mpi alone without its name; it was given {} values: {!r}".format(
            len(use_mpi), use_mpi))
    kwargs.update(zip(("use_mpi",), use_mpi))
    configuration = checked_configuration(kwargs)
    if configuration.daemon is not None:
        trainer_link.require(configuration.daemon)
    process = Process.begin(configuration)
    patches.apply()
    native.register_ops()
    api_names.use(rec_sdk=True)
    native.begin_program()
    unknown = unknown_arguments(kwargs)
    if unknown:
        _log.warning("init: unknown arguments are ignored: %s", ", ".join(unknown))
    _export_rank(process.configuration)
    atexit.register(terminate_config_initializer)


def terminate_config_initializer() -> None:
    """Shut down the pipeline; ``init`` may be called again. A second call does nothing."""
    process = Process.take_current()
    atexit.unregister(terminate_config_initializer)
    if process is None:
        _log.warning("terminate_config_initializer: nothing to end, init() was not called")
        return
    process.close()


def _export_rank(configuration: Configuration) -> None:
    """Set the variables that the incumbent's ``init`` sets, where the environment does not have them."""
    rank = str(configuration.rank_id)
    for variable, value in (("RANK_ID", rank), ("DEVICE_ID", rank), ("ASCEND_DEVICE_ID", rank),
                            ("DEVICE_INDEX", rank), ("JOB_ID", "10086")):
        os.environ.setdefault(variable, value)
