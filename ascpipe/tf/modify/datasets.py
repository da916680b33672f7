"""Functions that add tensors to the batches of an iterator.

The functions add a ``map`` to the dataset of the iterator, and outputs to each ``get_next``. The iterator, its
initializer and its existing outputs do not change, so the program can continue to use them. Only the dataset changes.
The new ``map`` is inserted before the last ``prefetch`` and the stages after this ``prefetch``.
"""
from typing import List, NamedTuple, Sequence, Tuple

import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from ascpipe.errors import GraphModificationError
from ascpipe.tf import internals
from ascpipe.tf.graph.dataset_graph import OPTION_STAGES, DatasetGraph, stage_kind
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.tensor_requests import Extend, Extension

#: Number of batches to read ahead if the program does not call ``prefetch``.
READ_AHEAD = 32

#: Stages that return each batch unchanged. Programs may have these stages after the last ``map``.
_PASSING = (*OPTION_STAGES, "PrefetchDataset", "TakeDataset", "SkipDataset", "RepeatDataset",
            "AssertCardinalityDataset")

_ONE_EACH = (". Instead of from_string_handle, use one iterator and one lookup for training, and others for evaluation "
             "(docs/tutorial/from-tensorflow.md, Feedable iterators)")


class _Rebuilt(NamedTuple):
    variant: tf.Tensor
    specs: List[tf.TensorSpec]


def initializers_of(iterator: tf.Operation) -> List[tf.Operation]:
    """Return the ops that initialize an iterator.

    Raises:
        ValueError: the iterator is not initialized in this graph, and is not a one-shot iterator.
    """
    if iterator.type == "OneShotIterator":
        return []
    found = [op for op in iterator.outputs[0].consumers() if op.type == "MakeIterator"] if iterator.outputs else []
    if not found:
        cure = _ONE_EACH if "String" in iterator.type else ""
        raise GraphModificationError("Iterator {!r} ({}) has no dataset in this graph. Create it by "
                                     "make_initializable_iterator() or make_one_shot_iterator(), and its initializer "
                                     "before asc.start(){}".format(iterator.name, iterator.type, cure))
    return found


def extend_iterator(datasets: DatasetGraph, get_nexts: Sequence[tf.Operation], extend: Extend) -> Extension:
    """Add tensors to the batches of an iterator, so that every ``get_next`` also returns these tensors.

    Args:
        datasets: datasets of the graph.
        get_nexts: all ``get_next`` of the iterator.
        extend: function that returns the flat tensors of a batch, followed by more tensors. It is called in the dataset
            with the flat tensors of the batch.

    Returns:
        The extension, for later calls of ``extend_get_next`` and ``extend_initializer``.

    Raises:
        ValueError: an error of ``initializers_of`` or ``extend``.
    """
    iterator = datasets.iterator(get_nexts[0])
    graph = iterator.graph
    given = _specs(iterator)
    specs = given
    initializers = initializers_of(iterator)
    with graph.as_default(), outside_scopes(graph):
        if iterator.type == "OneShotIterator":
            name, specs = _new_factory(graph, iterator.get_attr("dataset_factory").name, specs, extend)
            internals.set_function(iterator, "dataset_factory", name)
        for initializer in initializers:
            new = _rebuild(initializer.inputs[0], _specs(iterator), extend)
            internals.rewire(initializer, 0, new.variant)
            specs = new.specs
    internals.set_element_specs(iterator, specs)
    for get_next in get_nexts:
        extend_get_next(get_next, specs)
    return Extension(given, specs, extend, set(initializers))


def extend_get_next(get_next: tf.Operation, specs: Sequence[tf.TensorSpec]) -> None:
    """Add outputs to a ``get_next`` of an extended iterator, so that the op returns all tensors of a batch."""
    internals.set_element_specs(get_next, specs)
    internals.add_outputs(get_next, specs[len(get_next.outputs):])


def extend_initializer(initializer: tf.Operation, extension: Extension) -> None:
    """Replace the dataset of an initializer by an extended dataset. The iterator must be extended.

    A second call for the same initializer has no effect. Errors of ``extend`` are raised.
    """
    if initializer in extension.initializers:
        return
    with initializer.graph.as_default(), outside_scopes(initializer.graph):
        new = _rebuild(initializer.inputs[0], extension.given, extension.extend)
        internals.rewire(initializer, 0, new.variant)
    extension.initializers.add(initializer)


def _new_factory(graph: tf.Graph, name: str, specs: List[tf.TensorSpec],
                 extend: Extend) -> Tuple[str, List[tf.TensorSpec]]:
    """Copy the function that creates a one-shot iterator's dataset, and extend the dataset in the copy.

    Return the name of the copy and the specs of the extended batches.
    """
    old = internals.function_in(graph, name).definition
    definition = internals.graph_of_function(old)
    (returned,) = old.ret.values()
    made: List[_Rebuilt] = []

    @legacy_function.Defun(capture_by_value=True)
    def factory() -> tf.Tensor:
        (dataset,) = tf.import_graph_def(definition, return_elements=[returned.split(":")[0] + ":0"], name="")
        made.append(_rebuild(dataset, specs, extend))
        return made[-1].variant

    factory.add_to_graph(graph)
    return factory.name, made[-1].specs


def _rebuild(dataset: tf.Tensor, specs: List[tf.TensorSpec], extend: Extend) -> _Rebuilt:
    """Return a copy of a dataset with ``map(extend)`` before the last ``prefetch``.

    Add ``prefetch`` if it is missing. The default graph must contain the dataset.
    """
    stages = _trailing_stages(dataset)
    kinds = [stage_kind(op.type) for op in stages]
    prefetches = [place for place, kind in enumerate(kinds) if kind == "PrefetchDataset"]
    if prefetches:
        behind = stages[:prefetches[-1] + 1]
    else:
        behind = stages[:next((place for place, kind in enumerate(kinds) if kind not in OPTION_STAGES), len(stages))]
    source = behind[-1].inputs[0] if behind else dataset
    mapped = internals.dataset_of(source, tuple(specs)).map(extend)
    new_specs = list(mapped.element_spec)
    if not prefetches:
        mapped = mapped.prefetch(READ_AHEAD)
    variant = internals.variant_of(mapped)
    for op in reversed(behind):
        variant = _copy(op, variant, new_specs)
    return _Rebuilt(variant, new_specs)


def _trailing_stages(dataset: tf.Tensor) -> List[tf.Operation]:
    """Return the last stages of a dataset that return batches unchanged. The list begins with the last stage."""
    found = []
    op = dataset.op
    while stage_kind(op.type) in _PASSING:
        found.append(op)
        op = op.inputs[0].op
    return found


def _copy(stage: tf.Operation, source: tf.Tensor, specs: List[tf.TensorSpec]) -> tf.Tensor:
    attributes = {name: value for name, value in stage.node_def.attr.items() if not name.startswith("_")}
    copy = stage.graph.create_op(stage.type, [source, *stage.inputs[1:]], [tf.variant], attrs=attributes,
                                 name=stage.name.rsplit("/", 1)[-1])
    internals.set_element_specs(copy, specs)
    return copy.outputs[0]


def _specs(op: tf.Operation) -> List[tf.TensorSpec]:
    return [tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
            for shape, dtype in zip(op.get_attr("output_shapes"), op.get_attr("output_types"))]
