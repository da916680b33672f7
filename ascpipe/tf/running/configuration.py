"""``init`` and its end: the one process-wide object, and what a program told us in it.

Everything that lives longer than a graph hangs on the ``Configuration``; ``terminate_config_initializer``
drops it, and the pipeline with it.
"""
import atexit
import contextlib
import itertools
import logging
import os
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from ascpipe.control import trainer_link
from ascpipe.errors import NotBuiltYetError
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.incumbent.config_initializer import HybridManagerConfig, SparseEmbedConfig, SubConfig, TrainParamsConfig
from ascpipe.tf.running import mpi_ranks
from ascpipe.tf.running.deferred_starts import DeferredStarts
from ascpipe.tf.validation import Integer, Rule, Text, boolean, check_all

if TYPE_CHECKING:
    from ascpipe.tf.incumbent.host_ops import HostOps
    from ascpipe.tf.starting.start_pipeline import Pipeline

_log = logging.getLogger(__name__)

_STATE_OF_GRAPH = "_ascpipe_state"
DEFAULT_HASHTABLE_COLLECTION = "ASCEND_GLOBAL_HASHTABLE_COLLECTION"

_STEPS = Integer(-1)
_RULES: Dict[str, Rule] = {
    "max_steps": _STEPS, "train_steps": _STEPS, "eval_steps": _STEPS, "save_steps": _STEPS,
    "if_load": boolean(), "use_dynamic": boolean(), "use_dynamic_expansion": boolean(), "bind_cpu": boolean(),
    "use_lccl": boolean(), "is_incremental_checkpoint": boolean(),
    "save_checkpoint_due_time": Integer(1, optional=True), "save_delta_checkpoints_secs": Integer(1, optional=True),
    "restore_model_version": Integer(0, optional=True), "recent_key_count_threshold": Integer(0),
    # names of older versions
    "train_interval": _STEPS, "use_mpi": boolean(), "use_hot": boolean(), "prefetch_batch_number": Integer(1),
    "rank_id": Integer(0), "rank_size": Integer(1, 4095),
    # ours
    "daemon": Text(1, 48, optional=True),
}

#: Accepted because they only pace or speed up the incumbent; nothing here depends on them.
_WITHOUT_EFFECT = ("max_steps", "train_steps", "eval_steps", "save_steps", "train_interval", "bind_cpu", "use_lccl",
                   "use_mpi", "use_hot", "prefetch_batch_number", "rank_id", "rank_size", "use_shm_swap")


class Configuration:
    """What ``init`` was told, and the end of everything that was started since.

    Attributes:
        max_steps, train_steps, eval_steps, save_steps: as given; nothing is paced by them.
        if_load: whether the program means to restore a checkpoint.
        use_dynamic_expansion: tables grow, and their rows are used in host memory.
        use_static: tables are looked up with a ``send_count``.
        is_incremental_checkpoint: hooks save deltas, each ``save_delta_checkpoints_secs`` seconds, between full
            checkpoints, each ``save_checkpoint_due_time`` seconds.
        recent_key_count_threshold: keys that occurred fewer times stay out of a delta.
        restore_model_version: the step that the first restore takes, or None; ``version_is_restored``: it was.
        daemon: name of the daemon to use, or None for the usual choice.
        rank_id, rank_size: which process of how many.
        hashtable_collection: the graph collection that holds table variables.
        pipeline: the running one, or None.
        deferred: graphs whose pipeline is still to start.
        modify_graph: whether lookups of tensors were made.
        modified_graph: gives the graph that was modified last, if it is still there.
        last_saved: the last checkpoint that was saved, or None.
        sparse_embed_config, hybrid_manager_config, train_params_config, feature_spec_config, optimizer_config: the
            incumbent's parts.
    """

    _current: ClassVar[Optional["Configuration"]] = None

    def __init__(self, arguments: Dict[str, Any]) -> None:
        self.max_steps: int = arguments.get("max_steps", -1)
        self.train_steps: int = arguments.get("train_steps", arguments.get("train_interval", -1))
        self.eval_steps: int = arguments.get("eval_steps", -1)
        self.save_steps: int = arguments.get("save_steps", -1)
        self.if_load: bool = arguments.get("if_load", False)
        self.use_dynamic_expansion: bool = arguments.get("use_dynamic_expansion", False)
        self.use_static: bool = not arguments.get("use_dynamic", True)
        self.use_lccl: bool = arguments.get("use_lccl", False)
        self.use_hot: bool = arguments.get("use_hot", True)
        self.is_incremental_checkpoint: bool = arguments.get("is_incremental_checkpoint", False)
        self.save_checkpoint_due_time: int = arguments.get("save_checkpoint_due_time") or 0
        self.save_delta_checkpoints_secs: int = arguments.get("save_delta_checkpoints_secs") or 0
        self.recent_key_count_threshold: int = arguments.get("recent_key_count_threshold", 0)
        self.restore_model_version: Optional[int] = arguments.get("restore_model_version")
        self.version_is_restored = False
        self.daemon: Optional[str] = arguments.get("daemon")
        self.rank_id, self.rank_size = _ranks(arguments)
        self.hashtable_collection = DEFAULT_HASHTABLE_COLLECTION
        self.pipeline: Optional[Pipeline] = None
        self.deferred = DeferredStarts(self._has_next_numbers)
        self.modify_graph = False
        self.modified_graph: Callable[[], Optional[tf.Graph]] = lambda: None
        self.last_saved: Optional[str] = None
        self.sparse_embed_config = SparseEmbedConfig(self)
        self.hybrid_manager_config = HybridManagerConfig(self)
        self.train_params_config = TrainParamsConfig(self)
        self.feature_spec_config = self.optimizer_config = SubConfig(self)
        self._begun: Optional[trainer_link.Begun] = None
        self._expects_pipeline = False
        self._at_end: List[Callable[[], None]] = []
        self._stream_numbers = itertools.count()

    @property
    def frozen(self) -> bool:
        """Whether the pipeline runs, or starts with the next run of a session."""
        return self.pipeline is not None or bool(self.deferred.graphs())

    @property
    def host_pipeline_ops(self) -> "HostOps":
        """What ``import_host_pipeline_ops`` gives, where older versions have it. Raises ``RuntimeError``."""
        from ascpipe.tf.incumbent import host_ops
        return host_ops.import_host_pipeline_ops()

    @staticmethod
    def get_instance() -> "Configuration":
        """The configuration that ``init`` made. Raises ``EnvironmentError`` before ``init``."""
        if Configuration._current is None:
            raise OSError("ascpipe is not initialised: call init() first")
        return Configuration._current

    @staticmethod
    def set_instance(**kwargs: Any) -> None:
        """What ``init`` does."""
        init(**kwargs)

    @staticmethod
    def is_initialised() -> bool:
        """Whether ``get_instance`` has one to give."""
        return Configuration._current is not None

    def of_graph(self, graph: tf.Graph) -> GraphState:
        """What is known of a graph; empty the first time."""
        owner, state = getattr(graph, _STATE_OF_GRAPH, (None, None))
        if owner is not self or state is None:
            # On the graph itself, not in a dictionary here: the state refers to the graph, which would never go.
            state = GraphState(graph, self._stream_numbers)
            setattr(graph, _STATE_OF_GRAPH, (self, state))
        return state

    def table_number(self, name: str, before: Sequence[str]) -> int:
        """The number of a table that is created after those of a graph that are named ``before``."""
        known = {} if self.pipeline is None else {
            other: table.shape.number for other, table in self.pipeline.tables.items()}
        for graph in self.deferred.graphs():
            known.update((other, table.shape.number) for other, table in self.of_graph(graph).tables.items())
        if name in known:
            return known[name]
        return len(known) + sum(other not in known for other in before)

    def _has_next_numbers(self, graph: tf.Graph) -> bool:
        """Whether the tables that a graph brings have the numbers after those of the pipeline."""
        known = {} if self.pipeline is None else self.pipeline.tables
        numbers = [table.shape.number for name, table in self.of_graph(graph).tables.items() if name not in known]
        return numbers == list(range(len(known), len(known) + len(numbers)))

    def expect_pipeline(self) -> None:
        """A pipeline will be started: a private daemon, if it takes one, begins to load beside the program."""
        if not self._expects_pipeline:
            self._expects_pipeline = True
            self._begun = trainer_link.begin(self.daemon)

    def take_begun(self) -> Optional[trainer_link.Begun]:
        """The daemon that has begun, if one has; it is the caller's from now on."""
        begun, self._begun = self._begun, None
        return begun

    def running_pipeline(self) -> "Pipeline":
        """The pipeline, which starts now if it was to. Raises ``RuntimeError`` before ``start_asc_pipeline``."""
        if self.pipeline is None:
            self.deferred.start_all()
        if self.pipeline is None:
            raise RuntimeError("the pipeline does not run: call start_asc_pipeline() first")
        return self.pipeline

    def at_end(self, end: Callable[[], None]) -> None:
        """Have ``end`` called by ``terminate_config_initializer``, the last one first."""
        self._at_end.append(end)

    def close(self) -> None:
        """Call what ``at_end`` was given, all of it whatever fails; the first error goes up."""
        self.deferred.drop()
        with contextlib.ExitStack() as ends:
            begun = self.take_begun()
            if begun is not None:
                ends.callback(begun.end)
            for end in self._at_end:
                ends.callback(end)
            self._at_end = []
        self.pipeline = None


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
            ``default`` if it is free, else a private one.

    Raises:
        ValueError: an argument of the wrong type or out of range; max, train and eval steps all 0.
        EnvironmentError: ``init`` was called before, and not ended.
        NotBuiltYetError: several ranks.
    """
    if len(use_mpi) > 1:
        raise ValueError("init takes use_mpi alone without its name; it was given {} values: {!r}".format(
            len(use_mpi), use_mpi))
    kwargs.update(zip(("use_mpi",), use_mpi))
    check_all(_RULES, kwargs)
    lacking = [name for name in ("save_checkpoint_due_time", "save_delta_checkpoints_secs") if kwargs.get(name) is None]
    if kwargs.get("is_incremental_checkpoint", False) and lacking:
        raise ValueError("is_incremental_checkpoint=True needs {}, in seconds".format(" and ".join(lacking)))
    if all(kwargs.get(name, -1) == 0 for name in ("max_steps", "train_steps", "eval_steps")):
        raise ValueError("max_steps, train_steps and eval_steps are all 0: nothing would be done")
    if Configuration.is_initialised():
        raise OSError("init() was called before; call terminate_config_initializer() first")
    unknown = [name for name in kwargs if name not in _RULES and name not in _WITHOUT_EFFECT]
    if unknown:
        _log.warning("init: unknown arguments are ignored: %s", ", ".join(sorted(unknown)))
    configuration = Configuration(kwargs)
    _export_rank(configuration)
    Configuration._current = configuration
    atexit.register(terminate_config_initializer)


def terminate_config_initializer() -> None:
    """End what ``init`` and ``start_asc_pipeline`` began; ``init`` may be called again. May be called twice."""
    configuration, Configuration._current = Configuration._current, None
    atexit.unregister(terminate_config_initializer)
    if configuration is None:
        _log.warning("terminate_config_initializer: nothing to end, init() was not called")
        return
    configuration.close()


def _ranks(arguments: Dict[str, Any]) -> Tuple[int, int]:
    if mpi_ranks.launched_by_mpi():
        rank, size = mpi_ranks.get_rank_id(), mpi_ranks.get_rank_size()
    else:
        rank, size = arguments.get("rank_id", 0), arguments.get("rank_size", 1)
    if size > 1:
        raise NotBuiltYetError("training with {} ranks".format(size), "start one process")
    if rank >= size:
        raise ValueError("rank {} is not below the number of ranks, {}".format(rank, size))
    return rank, size


def _export_rank(configuration: Configuration) -> None:
    """Tell the program what the incumbent's ``init`` tells it, where the environment does not say otherwise."""
    rank = str(configuration.rank_id)
    for variable, value in (("RANK_ID", rank), ("DEVICE_ID", rank), ("ASCEND_DEVICE_ID", rank),
                            ("DEVICE_INDEX", rank), ("JOB_ID", "10086")):
        os.environ.setdefault(variable, value)


