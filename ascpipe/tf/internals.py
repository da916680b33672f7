"""The only module that uses private names of TensorFlow 1.15 and 2.15, except private names of savers.

Each private name that ascpipe calls has a public wrapper in this module. The wrappers of savers are in
``checkpoints/saver_parts.py``. Private names that a subclass overrides or reads (``self._name``,
``super()._create_slots``) need no wrapper.
"""
import functools
import importlib
import inspect
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python import tf2
from tensorflow.python.client import session as session_module
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import monitoring
from tensorflow.python.feature_column import feature_column, feature_column_v2
from tensorflow.python.framework import func_graph, function_def_to_graph, ops
from tensorflow.python.framework import function as legacy_function
from tensorflow.python.ops import control_flow_util, init_ops, init_ops_v2, resource_variable_ops, variables
from tensorflow_estimator.python.estimator import estimator

from ascpipe.tf.clean_up import interruptible

Kept = TypeVar("Kept")


def _first(name: str, *modules: str) -> Any:
    """Return an attribute of the first module that has this attribute. Modules differ between TensorFlow releases."""
    for module in modules:
        try:
            return functools.reduce(getattr, name.split("."), importlib.import_module(module))
        except (ImportError, AttributeError):
            continue
    raise ImportError("TensorFlow {} has no {} in {}".format(tf.__version__, name, " or ".join(modules)))


VERSION = str(tf.__version__)
#: The module from which functions that freeze a graph call ``extract_sub_graph``.
SUB_GRAPHS = "tensorflow.python.framework.graph_util" + ("_impl" if VERSION.startswith("1.") else "")
#: The module from which Estimators call ``warm_start``.
WARM_STARTS = _first("__name__", "tensorflow._api.v2.compat.v1.train", "tensorflow.python.training.warm_starting_util")
#: The package of Keras: a part of TensorFlow 1.15, or the separate package ``keras``, which TensorFlow 2.15 uses.
KERAS = _first("__name__", "keras.src", "tensorflow.python.keras")
#: The module of Keras models that are used in graphs.
KERAS_MODELS = _first("__name__", KERAS + ".engine.training_v1", KERAS + ".engine.training")
KERAS_OPTIMIZERS = _first("__name__", KERAS + ".optimizers.legacy.optimizer_v2", KERAS + ".optimizer_v2.optimizer_v2")

# ---- graphs and ops --------------------------------------------------------------------------------------

def rewire(op: tf.Operation, position: int, tensor: tf.Tensor) -> None:
    """Replace input ``position`` of ``op`` by ``tensor``."""
    op._update_input(position, tensor)


def add_control_input(op: tf.Operation, before: tf.Operation) -> None:
    """Make an op wait for another op of the same graph. The waiting op must not have run yet."""
    op._add_control_input(before)


def waiting_for(op: tf.Operation) -> Sequence[tf.Operation]:
    """Return the ops that have an op as a control input."""
    return op._control_outputs


def add_outputs(op: tf.Operation, specs: Sequence[tf.TensorSpec]) -> None:
    """Add outputs to an op. The attributes of the op must already contain the number and types of the outputs."""
    op._add_outputs([spec.dtype for spec in specs], [spec.shape for spec in specs])


def set_flag(op: tf.Operation, attribute: str, *, value: bool) -> None:
    """Set a bool attribute of an op."""
    op._set_attr(attribute, attr_value_pb2.AttrValue(b=value))


def set_function(op: tf.Operation, attribute: str, name: str) -> None:
    """Set an attribute of an op to the function with the name ``name``."""
    op._set_func_attr(attribute, name)


def set_element_specs(op: tf.Operation, specs: Sequence[tf.TensorSpec]) -> None:
    """Set the dtypes and shapes of the elements of a dataset op."""
    op._set_type_list_attr("output_types", [spec.dtype for spec in specs])
    op._set_shape_list_attr("output_shapes", [spec.shape for spec in specs])


def order_of(op: tf.Operation) -> int:
    """Return the creation number of an op. In a graph, newer ops have larger numbers."""
    return int(op._id)


def newest_order(graph: tf.Graph) -> int:
    """Return the creation number of the newest op of a graph. The graph must not be empty."""
    return int(graph.version) + _id_offset()


@functools.lru_cache(maxsize=None)
def _id_offset() -> int:
    """Return the id of a graph's newest op minus the graph's version: 0 in TensorFlow 1.15, 1 in TensorFlow 2.15."""
    with tf.Graph().as_default() as graph:
        return int(tf.no_op()._id - graph.version)


def is_reference(tensor: tf.Tensor) -> bool:
    """Return True if a tensor is a reference to a variable, not a value."""
    return bool(tensor.dtype._is_ref_dtype)


def reference_of(variable: tf.Variable) -> tf.Tensor:
    """Return the tensor that refers to a ref variable. This tensor is not a copy of the variable's value."""
    return variable._ref()


def op_of_assignment(value: Any) -> Any:
    """If ``value`` wraps an assignment, return the op of the assignment; otherwise, return ``value``."""
    return value.op if isinstance(value, resource_variable_ops._UnreadVariable) else value


def function_in(graph: tf.Graph, name: str) -> Any:
    """Return the function ``name`` in the library of a graph, or None if there is no such function."""
    return graph._get_function(name)


def graph_of_function(definition: Any) -> Any:
    """Return the ``GraphDef`` of a ``FunctionDef``, without the functions that the ``FunctionDef`` calls."""
    convert = function_def_to_graph.function_def_to_graph_def
    has_option = "copy_functions" in inspect.signature(convert).parameters  # removed after TensorFlow 1.15
    graph_def, _ = convert(definition, copy_functions=False) if has_option else convert(definition)
    return graph_def


def is_in_control_flow(graph: tf.Graph) -> bool:
    """Return True if the graph currently adds new ops to a conditional or loop."""
    return graph._get_control_flow_context() is not None


@interruptible
def in_control_flow_of(op: tf.Operation) -> Iterator[None]:
    """Context manager that creates ops in the same conditional or loop as ``op``."""
    graph = op.graph
    before = op.graph._get_control_flow_context()
    graph._set_control_flow_context(op._get_control_flow_context())
    try:
        yield
    finally:
        graph._set_control_flow_context(before)


def is_in_loop(op: tf.Operation) -> bool:
    """Return True if an op computes its output in each iteration of a ``tf.while_loop``."""
    return control_flow_util.GetContainingWhileContext(control_flow_util.GetOutputContext(op)) is not None


def graph_around(graph: tf.Graph) -> Optional[tf.Graph]:
    """Return the graph around a function body, or None if the graph is not a function body."""
    if isinstance(graph, func_graph.FuncGraph):
        return graph.outer_graph
    return graph._outer_graph if isinstance(graph, legacy_function._FuncGraph) else None


def outermost(graph: tf.Graph) -> tf.Graph:
    """Return the outermost graph that encloses ``graph``, or ``graph`` if ``graph`` is not a function body."""
    around = graph_around(graph)
    return graph if around is None else outermost(around)


def captured_by(graph: tf.Graph) -> List[tf.Tensor]:
    """Return the tensors that a function body captures from the enclosing graph."""
    is_new = isinstance(graph, func_graph.FuncGraph)
    return list(graph.external_captures if is_new else getattr(graph, "extra_inputs", ()))


def is_differentiable(op: tf.Operation) -> bool:
    """Return True if gradients pass through an op."""
    try:
        return ops.get_gradient_function(op) is not None
    except LookupError:
        return False


def has_v2_behavior() -> bool:
    """Return True if the behavior of TensorFlow 2 is enabled, or if ops outside functions are executed eagerly."""
    return bool(tf2.enabled() or ops.executing_eagerly_outside_functions())


def is_in_graph_block() -> bool:
    """Return True inside a ``with`` block of a graph or session."""
    return not ops._default_graph_stack.is_cleared()


def is_of_keras(tensor: tf.Tensor) -> bool:
    """Return True if a tensor is an input or output of a Keras layer."""
    return hasattr(tensor, "_keras_history")


def is_in_layer_of_keras() -> bool:
    """Return True while a Keras layer or model is being called."""
    return bool(_first("call_context", KERAS + ".engine.base_layer_utils")().in_call)


def stored_on(owner: Any, name: str, make: Callable[[], Kept]) -> Kept:
    """Return the object in the attribute ``_ascpipe_<name>`` of ``owner``. The first call creates it with ``make``."""
    attribute = "_ascpipe_" + name
    if not hasattr(owner, attribute):
        setattr(owner, attribute, make())
    kept: Kept = getattr(owner, attribute)
    return kept


#: Gauges that record the uses of Keras and of Estimators.
KERAS_GAUGE = _first("keras_api_gauge", KERAS + ".engine.base_layer") if KERAS == "keras.src" else _first(
    "_keras_api_gauge", KERAS_MODELS)
ESTIMATOR_GAUGE = estimator._estimator_api_gauge


def has_counted(gauge: Any, label: str) -> bool:
    """Return True if a gauge has recorded a use with the label ``label``."""
    return bool(monitoring.BoolGaugeCell(monitoring.Metric.get_cell(gauge, label)).value())


#: Class of variables that have a reference, which the ops of ascpipe require.
RefVariable = _first("RefVariable", "tensorflow.python.ops.ref_variable", variables.__name__)


# ---- datasets --------------------------------------------------------------------------------------------

def dataset_of(variant: tf.Tensor, specs: Any) -> Any:
    """Return a dataset with the given variant tensor and element specs. The specs may be nested."""
    return dataset_ops.DatasetV1Adapter(dataset_ops._VariantDataset(variant, specs))


def variant_of(dataset: Any) -> tf.Tensor:
    """Return the variant tensor of a dataset."""
    return dataset._variant_tensor


def resource_of(iterator: Any) -> tf.Tensor:
    """Return the handle of an iterator."""
    return iterator._iterator_resource


# ---- sessions and estimators -----------------------------------------------------------------------------

def fetched(fetches: Any) -> List[Any]:
    """Return the tensors and ops that a session runs for ``fetches``, without duplicates.

    The session's graph must be the default graph.
    """
    return list(session_module._FetchMapper.for_fetch(fetches).unique_fetches())


def session_within(session: tf.compat.v1.train.MonitoredSession) -> Any:
    """Return the ``tf.Session`` that a ``MonitoredSession`` wraps."""
    return session._tf_sess()


def folder_of(builder: Any) -> str:
    """Return the directory to which a SavedModel builder writes."""
    return tf.compat.as_text(builder._export_dir)


# ---- optimizers ------------------------------------------------------------------------------------------

def apply_repeated_as(kind: Any, optimizer: tf.compat.v1.train.Optimizer, grad: tf.IndexedSlices,
                      var: tf.Variable) -> Any:
    """Apply a sparse gradient with repeated indices as the TensorFlow optimizer class ``kind`` does."""
    return kind._apply_sparse_duplicate_indices(optimizer, grad, var)


def settings_of(optimizer: tf.compat.v1.train.Optimizer, names: Sequence[str]) -> List[Any]:
    """Return the values of a TensorFlow optimizer's constructor arguments, in the order of ``names``."""
    return [getattr(optimizer, "_" + name) for name in names]


def l2_of_ftrl(optimizer: tf.compat.v1.train.FtrlOptimizer) -> tf.Tensor:
    """Return the L2 factor of an FTRL optimizer. TensorFlow 2.15 adds ``beta / (2 * learning_rate)`` to the factor."""
    name = "_adjusted_l2_regularization_strength_tensor"
    return getattr(optimizer, name) if hasattr(optimizer, name) else optimizer._l2_regularization_strength_tensor


# ---- initializers ---------------------------------------------------------------------------------------

#: Modules with TensorFlow's initializer classes. In TensorFlow 1.15, Keras has no separate classes.
_INITIALIZERS = [init_ops, init_ops_v2]
if KERAS == "keras.src":
    _INITIALIZERS.append(importlib.import_module(KERAS + ".initializers.initializers"))
INITIALIZER_MODULES = tuple(module.__name__ for module in _INITIALIZERS)


def initializer_classes(name: str) -> Tuple[Any, ...]:
    """Return all TensorFlow initializer classes with the name ``name``."""
    return tuple(getattr(module, name) for module in _INITIALIZERS if hasattr(module, name))


# ---- feature columns -------------------------------------------------------------------------------------

#: Base classes of TensorFlow's older feature columns.
OldCategoricalColumn = feature_column._CategoricalColumn
OldSharedEmbeddingColumn = feature_column._SharedEmbeddingColumn
#: The module with TensorFlow 2's feature column layers.
COLUMN_LAYERS = KERAS + ".feature_column.dense_features_v2" if KERAS == "keras.src" else feature_column_v2.__name__
_StateManagerOfKeras = _first("_StateManagerImplV2", COLUMN_LAYERS)


def buckets_of(column: Any) -> int:
    """Return the number of buckets of a categorical column of TensorFlow 1 or 2."""
    buckets = getattr(column, "num_buckets", None)
    return int(column._num_buckets if buckets is None else buckets)


def fields_of_shared_embeddings(creator: Any) -> Tuple[str, int, Any]:
    """Return name, number of buckets and initializer of the variable that ``shared_embeddings`` creates."""
    return creator._name, creator._num_buckets, creator._initializer


def fields_of_linear_column(layer: Any) -> Tuple[Any, int]:
    """Return the column of a layer of ``linear_model``, and the number of the layer's outputs."""
    return layer._feature_column, layer._units


def makes_variables_by_itself(state_manager: Any) -> bool:
    """Return True if a layer creates its columns' variables outside a scope, as layers of TensorFlow 2 do."""
    return isinstance(state_manager, _StateManagerOfKeras)


def sparse_input(given: Any) -> tf.SparseTensor:
    """Convert a feature to the SparseTensor that columns read. Missing ids of a dense tensor are removed."""
    return feature_column_v2._to_sparse_input_and_drop_ignore_values(given)


@interruptible
def custom_getter_of(layer: Any, getter: Callable[..., Any]) -> Iterator[None]:
    """Context manager that sets the custom getter of a layer's variable scope."""
    before = layer._scope.custom_getter
    layer._scope.set_custom_getter(getter)
    try:
        yield
    finally:
        layer._scope.set_custom_getter(before)


@interruptible
def with_shape(variable: Any, shape: Sequence[int]) -> Iterator[None]:
    """Context manager that overrides the result of a variable's ``get_shape``."""
    variable.get_shape = lambda: tf.TensorShape(shape)
    try:
        yield
    finally:
        del variable.get_shape
