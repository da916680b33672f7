"""List of all attributes of TensorFlow that ascpipe replaces, and code that replaces and restores the attributes.

``import mx_rec`` and ``init`` apply the patches. Patches of a ``Feature`` are applied when the program first uses the
feature. ``shutdown`` and ``terminate_config_initializer`` undo all patches.
"""
import contextlib
import functools
import importlib
import inspect
import weakref
from typing import Any, Callable, List, Optional, TypeVar

from ascpipe.errors.usage import UnsupportedTensorFlowError
from ascpipe.tf import internals

Replacement = TypeVar("Replacement")

_NOTHING = object()


class Feature:
    """Optional feature that needs patches, for example Estimators or ``mx_rec``.

    ascpipe applies the patches of a feature when the program first uses the feature, and again in each later ``init``.

    Args:
        was_used: function that returns True if TensorFlow has recorded a use of the feature, even before ``init``.
    """

    def __init__(self, was_used: Callable[[], bool] = lambda: False) -> None:
        self._is_used = False
        self._was_used = was_used

    @property
    def is_used(self) -> bool:
        """Return whether this process has used the feature."""
        return self._is_used or self._was_used()

    def use(self) -> None:
        """Record that the program uses the feature. If patches are currently applied, also apply the patches of the
        feature.

        Repeated calls have no effect.
        """
        if not self._is_used:
            self._is_used = True
            for patch in PATCHES if _Applied.now else ():
                if patch.feature is self:
                    patch.put()


class Patch:
    """Patch that replaces an attribute of a class or module of TensorFlow.

    Args:
        module: module of TensorFlow. It is imported only when needed, because not every program uses Estimators.
        path: path of the attribute in the module, for example ``Class.method``.
        purpose: reason for the replacement.
        feature: feature that needs the patch, or None if every program needs the patch.
        of_graphs: if True, replace a method on each graph with tables, not on the class.
        is_new: True if TensorFlow has no such attribute.
        stays: True if ``undo`` keeps the replacement in a process that has created tables. The replacement then refuses
            graphs whose tables ``shutdown`` has discarded, and calls TensorFlow's attribute for all other graphs.
    """

    def __init__(self, module: str, path: str, purpose: str, feature: Optional[Feature] = None, *,
                 of_graphs: bool = False, is_new: bool = False, stays: bool = False) -> None:
        self.module = module
        self.path = path
        self.purpose = purpose
        self.feature = feature
        self.of_graphs = of_graphs
        self.is_new = is_new
        self.stays = stays
        self._plain: Any = _NOTHING
        self._replacement: Any = _NOTHING
        self._objects: weakref.WeakSet[Any] = weakref.WeakSet()
        PATCHES.append(self)

    @property
    def plain(self) -> Any:
        """Return TensorFlow's original attribute, or None if TensorFlow has no such attribute and ``is_new`` is True.

        Raises:
            UnsupportedTensorFlowError: TensorFlow does not have the attribute, and ``is_new`` is False.
        """
        if self._plain is _NOTHING:
            plain = vars(self._owner()).get(self._name())
            if plain is None and not self.is_new:
                raise self._missing()
            self._plain = plain
        return self._plain

    def by(self, replacement: Replacement) -> Replacement:
        """Decorate the function that replaces the attribute."""
        self._replacement = replacement
        return replacement

    def put(self) -> None:
        """Replace the attribute if a replacement is registered and the feature of the patch is used. Repeated calls
        have no effect.
        """
        if self._replacement is _NOTHING or not (self.feature is None or self.feature.is_used):
            return
        if self.plain is not self._replacement and not self.of_graphs:
            setattr(self._owner(), self._name(), self._replacement)
        self._on_objects(is_replaced=self.of_graphs)

    def put_on(self, each: Any) -> None:
        """Register an object whose class has the attribute of this patch.

        With ``of_graphs``, the attribute of the object is replaced while patches are applied. Without ``of_graphs``, it
        remains replaced after ``undo``.
        """
        self._objects.add(each)
        if self.of_graphs and _Applied.now:
            self._on_objects(is_replaced=True)

    def undo(self) -> None:
        """Restore TensorFlow's attribute. Do nothing if the attribute was not replaced, or if the replacement must
        remain.
        """
        if self._plain is _NOTHING or (self.stays and _Applied.has_tables):
            return
        if self._plain is not None:
            setattr(self._owner(), self._name(), self._plain)
        elif self._name() in vars(self._owner()):
            delattr(self._owner(), self._name())
        self._on_objects(is_replaced=not self.of_graphs)

    def _on_objects(self, *, is_replaced: bool) -> None:
        """Replace or restore the attribute on registered objects.

        The replacement has only weak references to the objects.
        """
        for each in self._objects:
            with contextlib.suppress(AttributeError):
                delattr(each, self._name())  # a graph of TensorFlow 2.15 has no __dict__
            if is_replaced:
                setattr(each, self._name(), functools.partial(_call, self._replacement, weakref.ref(each)))

    def _owner(self) -> Any:
        try:
            owner = importlib.import_module(self.module)
            for name in self.path.split(".")[:-1]:
                owner = getattr(owner, name)
        except (ImportError, AttributeError) as error:
            raise self._missing() from error
        return owner

    def _missing(self) -> UnsupportedTensorFlowError:
        return UnsupportedTensorFlowError(
            "TensorFlow {} has no {}.{}, which ascpipe replaces because {}. Nothing was started. Install a supported "
            "version of TensorFlow (docs/how-to/install.md)".format(
                internals.VERSION, self.module, self.path, self.purpose))

    def _name(self) -> str:
        return self.path.split(".")[-1]


def _call(replacement: Callable[..., Any], of: Callable[[], Any], *args: Any, **kwargs: Any) -> Any:
    return replacement(of(), *args, **kwargs)


class _Applied:
    """Record of whether the patches of this process are applied, and whether the process has created tables."""

    now = False
    has_tables = False


PATCHES: List[Patch] = []

COLUMNS = Feature()  #: feature columns with tables
ESTIMATORS = Feature(lambda: internals.has_counted(internals.ESTIMATOR_GAUGE, "init"))
KERAS = Feature(lambda: internals.has_counted(internals.KERAS_GAUGE, "model"))  #: Keras models
INCUMBENT = Feature()  #: ``mx_rec``
ACCELERATOR_OPTIONS = Feature()  #: Rec SDK's session options for accelerators
HOST_OPS = Feature()  #: Rec SDK's host ops

_SAVER = "tensorflow.python.training.saver"
_SESSION = "tensorflow.python.client.session"
_GRAPH = "tensorflow.python.framework.ops"
_ESTIMATOR = "tensorflow_estimator.python.estimator.estimator"
_LINEAR = "tensorflow_estimator.python.estimator.canned.linear"
_COLUMNS = "tensorflow.python.feature_column.feature_column_v2"
_OLD_COLUMNS = "tensorflow.python.feature_column.feature_column"

SAVER_BUILD = Patch(_SAVER, "Saver._build", "a saver excludes rows of tables from TensorFlow's part")
SAVER_SAVE = Patch(_SAVER, "Saver.save", "a saver saves the tables, too", stays=True)
SAVER_RESTORE = Patch(_SAVER, "Saver.restore", "a saver restores the tables, too", stays=True)
HOOK_BEGIN = Patch("tensorflow.python.training.basic_session_run_hooks", "CheckpointSaverHook.begin",
                   "a hook checks its directory before training, and saves deltas between full checkpoints")
SUPERVISOR_INIT = Patch("tensorflow.python.training.supervisor", "Supervisor.__init__",
                        "a supervisor checks before training that checkpoints can be saved in its directory")
COMPUTE_GRADIENTS = Patch("tensorflow.python.training.optimizer", "Optimizer.compute_gradients",
                          "an optimizer merges lookups of tensors before it computes gradients")
APPLY_GRADIENTS = Patch("tensorflow.python.training.optimizer", "Optimizer.apply_gradients",
                        "an optimizer refuses dense gradients of tables, and passes gradients to the optimizer for "
                        "tables")
GRADIENTS = Patch("tensorflow.python.ops.gradients_util", "_GradientsHelper",
                  "records which losses a program differentiates, to find tables that are not trained")
TAPE_GRADIENT = Patch("tensorflow.python.eager.backprop", "GradientTape.gradient",
                      "records which losses a gradient tape differentiates")
MOVING_AVERAGES = Patch("tensorflow.python.training.moving_averages", "ExponentialMovingAverage.apply",
                        "moving averages of tables are refused")
INIT_FROM_CHECKPOINT = Patch("tensorflow.python.training.checkpoint_utils", "_init_from_checkpoint",
                             "tables of columns are initialized from a checkpoint, and other tables are refused")
WARM_STARTED = Patch("tensorflow.python.training.warm_starting_util", "_get_grouped_variables",
                     "a warm start outside an Estimator refuses tables, because it sets only initializers")
FREEZE = Patch(internals.SUB_GRAPHS, "extract_sub_graph",
               "a graph with tables is not frozen to constants")
SESSION_CALL = Patch(_SESSION, "BaseSession._do_call",
                     "the first run starts a marked graph, and errors of ops of ascpipe end with advice")
FIRST_USES = Patch("tensorflow.python.eager.monitoring", "BoolGauge.get_cell",
                   "detects the first use of Keras and of Estimators, which TensorFlow counts here")

RUN_LOCK = Patch(_GRAPH, "Graph._session_run_lock", "a callable of a session starts a marked graph, too",
                 of_graphs=True)
FINALIZE = Patch(_GRAPH, "Graph.finalize",
                 "a marked graph starts before it is finalized; one that needs graph modification is refused",
                 of_graphs=True)

SESSION_INIT = Patch(_SESSION, "BaseSession.__init__", "a session computes deterministically if that is requested",
                     ACCELERATOR_OPTIONS)
GET_NEXT = Patch("tensorflow.python.data.ops.iterator_ops", "Iterator.get_next",
                 "programs for Rec SDK request the batch whose ids a channel looks up", INCUMBENT)
EOS_MAP = Patch("tensorflow.python.data.ops.dataset_ops", "DatasetV2.eos_map", "programs for Rec SDK call it",
                HOST_OPS, is_new=True)

ADD_META_GRAPH = Patch(_ESTIMATOR, "Estimator._add_meta_graph_for_mode", "an Estimator exports its tables", ESTIMATORS)
EXPORT_ALL = Patch(_ESTIMATOR, "Estimator._export_all_saved_models",
                   "a failed export of an Estimator removes its temporary directory", ESTIMATORS)
CALL_MODEL_FN = Patch(_ESTIMATOR, "Estimator._call_model_fn",
                      "an Estimator records the mode of its graph, and writes scalars of the pipeline", ESTIMATORS)
EXPORT_DIRECTORY = Patch("tensorflow_estimator.python.estimator.export.export_lib", "get_timestamped_export_dir",
                         "ranks that export at the same time use different directories", ESTIMATORS)
WARM_START = Patch(internals.WARM_STARTS, "warm_start", "an Estimator warm-starts tables, too", ESTIMATORS)
SCAFFOLD_INIT_FN = Patch("tensorflow.python.training.monitored_session", "Scaffold.init_fn",
                         "the session of an Estimator loads the tables of a warm start", ESTIMATORS)

KERAS_DATA = Patch(internals.KERAS_MODELS, "Model._standardize_user_data",
                   "a Keras model refuses looked-up rows", KERAS)

CREATE_VARIABLE = Patch(_COLUMNS, "_StateManagerImpl.create_variable", "a table replaces the variable of a column",
                        COLUMNS)
CREATE_LAYER_VARIABLE = Patch(internals.COLUMN_LAYERS, "_StateManagerImplV2.create_variable",
                              "a large column in a layer of TensorFlow 2 is listed as not replaced", COLUMNS)
EMBEDDING_COLUMN = Patch(_COLUMNS, "EmbeddingColumn._old_get_dense_tensor_internal",
                         "a table replaces the variable of a column in input_layer", COLUMNS)
SHARED_COLUMN = Patch(_OLD_COLUMNS, "_SharedEmbeddingColumn._get_dense_tensor_internal",
                      "the same for shared_embedding_columns", COLUMNS)
SHARED_WEIGHTS = Patch(_COLUMNS, "SharedEmbeddingColumnCreator.embedding_weights",
                       "a table replaces the variable of shared_embeddings of TensorFlow 2", COLUMNS)
LINEAR_COLUMN = Patch(_OLD_COLUMNS, "_FCLinearWrapper.build", "a table replaces the weights of linear_model", COLUMNS)
SAFE_LOOKUP = Patch("tensorflow.python.ops.embedding_ops", "safe_embedding_lookup_sparse",
                    "columns look up the table that replaces their variable", COLUMNS)
FRACTION_OF_ZERO = Patch(_LINEAR, "_compute_fraction_of_zero", "a linear Estimator does not count the zeros of tables",
                         COLUMNS)
SDCA_STEP = Patch(_LINEAR, "LinearSDCA.get_train_step", "an optimizer that reads whole variables refuses tables",
                  COLUMNS)
KERAS_GRADIENTS = Patch(internals.KERAS_OPTIMIZERS, "OptimizerV2.get_gradients",
                        "a Keras optimizer refuses tables of columns", COLUMNS)

_sessions: "weakref.WeakSet[Any]" = weakref.WeakSet()


def apply_to_session(session: Any, run: Callable[..., Any], make_callable: Callable[..., Any]) -> None:
    """Replace ``run`` and ``make_callable`` of a session. With the replacements, a run can train several iterations."""
    _sessions.add(session)
    session.run = run
    session.make_callable = make_callable


def apply_to_graph(graph: Any) -> None:
    """Replace two methods of a graph with tables: ``finalize``, and the method that each run of a session calls."""
    _Applied.has_tables = True
    RUN_LOCK.put_on(graph)
    FINALIZE.put_on(graph)


def gated_gradients(*args: Any, **kwargs: Any) -> Any:
    """Call TensorFlow's function of gradients. With TensorFlow 2.15, set ``gate_gradients``, as ``Optimizer`` does.

    An op with two gradients, such as MatMul, then computes both before the program uses one. TensorFlow 2.15 may
    otherwise update weights in place before the gradient of the rows reads the weights.
    """
    plain: Callable[..., Any] = GRADIENTS.plain
    call = inspect.signature(plain).bind(*args, **kwargs)
    if not internals.VERSION.startswith("1."):
        call.arguments["gate_gradients"] = True
    return plain(*call.args, **call.kwargs)


def apply() -> None:
    """Apply all patches, except patches of unused features.

    The function may be called repeatedly, and again after ``undo``.
    """
    _Applied.now = True
    for patch in PATCHES:
        patch.put()


def undo() -> None:
    """Undo all patches, including patches of sessions. Features that need the patches do not work after this call.

    In a process that has created tables, ``Saver.save`` and ``Saver.restore`` remain replaced (``Patch.stays``).
    """
    _Applied.now = False
    for patch in PATCHES:
        patch.undo()
    for session in _sessions:
        del session.run, session.make_callable
    _sessions.clear()
