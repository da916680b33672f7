"""The one list of what ascpipe replaces in TensorFlow, and the one place that replaces it and gives it back.

``import mx_rec`` replaces all of ``PATCHES`` but what belongs to one session, ``ascpipe.tf.init`` those that are not
for programs of an Ascend server. ``undo`` gives TensorFlow back as it was.
"""
import importlib
import weakref
from typing import Any, Callable, List

_NOTHING = object()


class Patch:
    """An attribute of a class or module of TensorFlow that is replaced.

    Args:
        module: of TensorFlow; imported when it is needed, as not every program needs Estimators.
        path: of the attribute in it, ``Class.method`` for instance.
        purpose: what it is replaced for.
    """

    def __init__(self, module: str, path: str, purpose: str) -> None:
        self.module = module
        self.path = path
        self.purpose = purpose
        self._plain: Any = _NOTHING
        PATCHES.append(self)

    @property
    def plain(self) -> Any:
        """The attribute as TensorFlow has it; None: it has none of this name."""
        if self._plain is _NOTHING:
            self._plain = vars(self._owner()).get(self._name())
        return self._plain

    def apply(self, replacement: Any) -> None:
        """Put something into its place, once TensorFlow's own is kept. May be called twice."""
        if self.plain is not replacement:
            setattr(self._owner(), self._name(), replacement)

    def undo(self) -> None:
        """Give TensorFlow its own back. May be called twice, and without ``apply``."""
        if self._plain is _NOTHING:
            return
        if self._plain is not None:
            setattr(self._owner(), self._name(), self._plain)
        elif self._name() in vars(self._owner()):
            delattr(self._owner(), self._name())

    def _owner(self) -> Any:
        owner = importlib.import_module("tensorflow" + self.module)
        for name in self.path.split(".")[:-1]:
            owner = getattr(owner, name)
        return owner

    def _name(self) -> str:
        return self.path.split(".")[-1]


PATCHES: List[Patch] = []

_SAVER = ".python.training.saver"
_HOOKS = ".python.training.basic_session_run_hooks"
_SESSION = ".python.client.session"
_ITERATORS = ".python.data.ops.iterator_ops"
_MONITORED = ".python.training.monitored_session"

SAVER_BUILD = Patch(_SAVER, "Saver._build", "a saver leaves rows of tables out of TensorFlow's part")
SAVER_SAVE = Patch(_SAVER, "Saver.save", "a saver saves the tables, too")
SAVER_RESTORE = Patch(_SAVER, "Saver.restore", "a saver restores the tables, too")
HOOK_BEGIN = Patch(_HOOKS, "CheckpointSaverHook.begin", "a hook takes the intervals of incremental checkpoints")
HOOK_SAVE = Patch(_HOOKS, "CheckpointSaverHook._save", "a hook decides between a full checkpoint and a delta")
HOOK_GET_SAVER = Patch(_HOOKS, "CheckpointSaverHook._get_saver", "a hook passes that on to its saver")
SUPERVISOR_INIT = Patch(".python.training.supervisor", "Supervisor.__init__",
                        "a supervisor checks before training that checkpoints can be saved in its folder")
WARM_START = Patch(".python.training.warm_starting_util", "warm_start", "an Estimator warm-starts tables, too")
INIT_FROM_CHECKPOINT = Patch(".python.training.checkpoint_utils", "_init_from_checkpoint",
                             "tables behind columns begin with the rows of a checkpoint")
SCAFFOLD_INIT_FN = Patch(_MONITORED, "Scaffold.init_fn", "a managed session loads the tables of a warm start")
CREATE_SESSION = Patch(_MONITORED, "ChiefSessionCreator.create_session",
                       "a managed session refuses a graph that still needs graph modification")
ADD_META_GRAPH = Patch("_estimator.python.estimator.estimator", "Estimator._add_meta_graph_for_mode",
                       "an Estimator exports its tables")
CALL_MODEL_FN = Patch("_estimator.python.estimator.estimator", "Estimator._call_model_fn",
                      "an Estimator notes the mode of its graph, and writes scalars of the pipeline")
EXPORT_DIRECTORY = Patch("_estimator.python.estimator.export.export_lib", "get_timestamped_export_dir",
                         "ranks that export at the same time do not do it into the same directory")
EOS_MAP = Patch(".python.data.ops.dataset_ops", "DatasetV2.eos_map", "programs of the incumbent call it")
COMPUTE_GRADIENTS = Patch(".python.training.optimizer", "Optimizer.compute_gradients",
                          "an optimizer merges lookups of tensors before it asks for gradients")
APPLY_GRADIENTS = Patch(".python.training.optimizer", "Optimizer.apply_gradients",
                        "an optimizer refuses dense gradients of tables, and hands gradients to one for tables")
GRADIENTS = Patch(".python.ops.gradients_util", "_GradientsHelper",
                  "it is known which losses a program differentiates, so that a table that is not trained is found")
TAPE_GRADIENT = Patch(".python.eager.backprop", "GradientTape.gradient", "the same of a tape")
MOVING_AVERAGES = Patch(".python.training.moving_averages", "ExponentialMovingAverage.apply",
                        "moving averages of tables are refused")
GET_NEXT = Patch(_ITERATORS, "Iterator.get_next", "an iterator can be used after graph modification")
MAKE_INITIALIZER = Patch(_ITERATORS, "Iterator.make_initializer", "an iterator can be initialised after it")
EXTEND_GRAPH = Patch(_SESSION, "BaseSession._extend_graph", "the first run of a session starts a marked graph")
FINALIZE = Patch(".python.framework.ops", "Graph.finalize", "a marked graph starts before it is finalized")
FREEZE = Patch(".python.framework.graph_util_impl", "extract_sub_graph",
               "a graph with tables is not frozen to constants")
IMPORT = Patch(".python.framework.importer", "_ProcessGraphDefParam",
               "the import of a graph with tables says how to build it instead")
SESSION_CALL = Patch(_SESSION, "BaseSession._do_call", "an error of an op of ascpipe ends with what to do")
SESSION_INIT = Patch(_SESSION, "BaseSession.__init__", "a session computes deterministically where it is asked to")

KERAS_GRADIENTS = Patch(".python.keras.optimizer_v2.optimizer_v2", "OptimizerV2.get_gradients",
                        "an optimizer of Keras refuses tables behind columns")
_KERAS_MODEL = ".python.keras.engine.training"
_KERAS_REFUSES = "a model of Keras refuses looked-up rows"
KERAS_TRAIN = Patch(_KERAS_MODEL, "Model._make_train_function", _KERAS_REFUSES)
KERAS_TEST = Patch(_KERAS_MODEL, "Model._make_test_function", _KERAS_REFUSES)
KERAS_PREDICT = Patch(_KERAS_MODEL, "Model._make_predict_function", _KERAS_REFUSES)
_COLUMNS = ".python.feature_column.feature_column_v2"
_OLD_COLUMNS = ".python.feature_column.feature_column"

CREATE_VARIABLE = Patch(_COLUMNS, "_StateManagerImpl.create_variable", "a table stands for a column's variable")
EMBEDDING_COLUMN = Patch(_COLUMNS, "EmbeddingColumn._old_get_dense_tensor_internal",
                         "the same in input_layer, which makes variables by itself")
SHARED_COLUMN = Patch(_OLD_COLUMNS, "_SharedEmbeddingColumn._get_dense_tensor_internal",
                      "the same for shared_embedding_columns")
SHARED_WEIGHTS = Patch(_COLUMNS, "SharedEmbeddingColumnCreator.embedding_weights",
                       "the same for shared_embeddings of TensorFlow 2")
LINEAR_COLUMN = Patch(_OLD_COLUMNS, "_FCLinearWrapper.build", "the same for the weights of linear_model")
SAFE_LOOKUP = Patch(".python.ops.embedding_ops", "safe_embedding_lookup_sparse",
                    "columns look up the table that stands for their variable")
FRACTION_OF_ZERO = Patch("_estimator.python.estimator.canned.linear", "_compute_fraction_of_zero",
                         "a linear Estimator does not count the zeros of tables")
SDCA_STEP = Patch("_estimator.python.estimator.canned.linear", "LinearSDCA.get_train_step",
                  "an optimizer that reads whole variables refuses tables")

_sessions: "weakref.WeakSet[Any]" = weakref.WeakSet()


def apply_to_session(session: Any, run: Callable[..., Any], make_callable: Callable[..., Any]) -> None:
    """Replace two methods of one session, so that one run trains several iterations (``set_iteration_per_loop``)."""
    _sessions.add(session)
    session.run = run
    session.make_callable = make_callable


def undo() -> None:
    """Undo all patches, and those of sessions. Features that need the patches no longer work afterwards."""
    for patch in PATCHES:
        patch.undo()
    for session in _sessions:
        del session.run, session.make_callable
    _sessions.clear()
