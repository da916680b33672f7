"""Argument ``transform`` of ``asc.data.read``: a numpy function that is called with each batch."""
import importlib
import traceback
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from ascpipe.errors import ArgumentError, TransformError
from ascpipe.errors.base import shown
from ascpipe.tf.running import native

Sparse = tf.compat.v1.SparseTensorValue
Function = Callable[[Dict[str, Any]], Mapping[str, Any]]

_ON_CPU = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
_ACTION = "The program has no batch of this call, and the data is unchanged. Correct the function"
_RETURN = "Return a dict: name of a feature -> np.ndarray or tf.compat.v1.SparseTensorValue"


class Output(NamedTuple):
    """Type and shape of a feature that a function returns.

    Attributes:
        dtype: type of the values.
        shape: all dimensions except the first one, which is the number of records. Dimensions of a sparse feature are
            unknown.
        is_sparse: whether the feature is a SparseTensorValue.
    """

    dtype: tf.DType
    shape: Tuple[Optional[int], ...]
    is_sparse: bool

    def __str__(self) -> str:
        return "{}{}[{}]".format("sparse " if self.is_sparse else "", self.dtype.name, ", ".join(
            ["records", *("any" if size is None else str(size) for size in self.shape)]))


def function_of(transform: Union[str, Function]) -> Tuple[str, Function]:
    """Return (name for error messages, function) for the argument ``transform``.

    Args:
        transform: a function, or the text "module:function".

    Raises:
        ArgumentError: there is no such function.
    """
    if callable(transform):
        return getattr(transform, "__qualname__", shown(transform)), transform
    module, _, name = transform.partition(":") if isinstance(transform, str) else ("", "", "")
    if not module or not name:
        raise ArgumentError("Argument transform of asc.data.read is {}. Nothing was read. Pass a function, or the text "
                            "\"module:function\"".format(shown(transform)))
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ArgumentError("The module of transform={!r} cannot be imported: {}. Nothing was read. Check the name and "
                            "PYTHONPATH".format(transform, error)) from error
    except AttributeError as error:
        raise ArgumentError("There is no function {!r} in module {!r} for transform={!r}. Nothing was read. Correct "
                            "the name".format(name, module, transform)) from error
    if not callable(found):
        raise ArgumentError("transform={!r} is {}, which is not a function. Nothing was read. Pass the name of a "
                            "function".format(transform, shown(found)))
    return transform, found


def records_of(batch: Mapping[str, Any]) -> int:
    """Return the number of records in a batch of arrays."""
    value = next(iter(batch.values()))
    return int(value.dense_shape[0]) if isinstance(value, Sparse) else len(value)


def outputs_of(result: Any, records: int) -> Dict[str, Output]:
    """Return the types and shapes of the features that a function has returned for a batch.

    Raises:
        ValueError: the result is not a dict of arrays that have one element per record.
    """
    if not isinstance(result, Mapping) or not result:
        raise ValueError("returned {}. {}".format(shown(result), _RETURN))
    return {name: _output(name, value, records) for name, value in result.items()}


def _output(name: Any, value: Any, records: int) -> Output:
    if not isinstance(name, str):
        raise ValueError("returned a feature with the name {}. {}".format(shown(name), _RETURN))
    array = np.asarray(value.values) if isinstance(value, Sparse) else value
    if not isinstance(array, np.ndarray):
        raise ValueError("returned {} for feature {!r}. {}".format(shown(value), name, _RETURN))
    try:
        dtype = tf.string if array.dtype.kind in "SUO" else tf.as_dtype(array.dtype)
    except TypeError:
        raise ValueError("returned an array of type {} for feature {!r}. Convert it to a type of TensorFlow".format(
            array.dtype, name)) from None
    shape = _dense_shape(name, value) if isinstance(value, Sparse) else array.shape
    if not shape or shape[0] != records:
        raise ValueError("returned shape {} for feature {!r}, but the batch has {} records. The first dimension must "
                         "be the number of records".format(list(shape), name, records))
    is_sparse = isinstance(value, Sparse)
    return Output(dtype, (None,) * len(shape[1:]) if is_sparse else shape[1:], is_sparse)


def _dense_shape(name: str, value: Any) -> Tuple[int, ...]:
    indices, values, shape = map(np.asarray, value)
    is_empty = indices.size == values.size == 0
    if shape.ndim != 1 or values.ndim != 1 or not (is_empty or indices.shape == (len(values), len(shape))):
        raise ValueError("returned a sparse feature {!r} with indices of shape {}, values of shape {} and dense_shape "
                         "{}. Return indices of shape [values, dimensions]".format(
                             name, list(indices.shape), list(values.shape), shown(value.dense_shape)))
    if not is_empty and ((indices < 0) | (indices >= shape)).any():
        raise ValueError("returned indices {} to {} for the sparse feature {!r} of dense_shape {}. Return indices from "
                         "0 that are less than dense_shape".format(
                             indices.min(0).tolist(), indices.max(0).tolist(), name, shape.tolist()))
    return tuple(shape.tolist())


def check_outputs(found: Mapping[str, Output], expected: Mapping[str, Output]) -> None:
    """Check that returned features have the same names, types and shapes as the features of the first batch.

    Raises:
        ValueError: a feature is missing or new, or has another type or shape.
    """
    if set(found) != set(expected):
        raise ValueError("returned the features {}, but {} for the first batch. Return the same features for all "
                         "batches".format(shown(sorted(found)), shown(sorted(expected))))
    for name, output in found.items():
        if output != expected[name]:
            raise ValueError("returned {} for feature {!r}, but {} for the first batch. Return the same type and shape "
                             "for all batches, for example with np.asarray(values, dtype)".format(
                                 output, name, expected[name]))


def flat(batch: Mapping[str, Any]) -> List[Any]:
    """Return the components of a batch's features. The features are sorted by name."""
    return [part for name in sorted(batch) for part in _parts(batch[name])]


def composed(parts: Sequence[Any], is_sparse: Mapping[str, bool], sparse: Any) -> Dict[str, Any]:
    """Build a batch from the components that ``flat`` returned. ``sparse`` builds a sparse feature from three
    components.
    """
    left = iter(parts)
    return {name: sparse(next(left), next(left), next(left)) if is_sparse[name] else next(left)
            for name in sorted(is_sparse)}


def _parts(value: Any) -> Tuple[Any, ...]:
    if isinstance(value, tf.SparseTensor):
        return value.indices, value.values, value.dense_shape
    if isinstance(value, Sparse):
        return (np.asarray(value.indices, np.int64).reshape(-1, len(value.dense_shape)),
                _readable(np.asarray(value.values)), np.asarray(value.dense_shape, np.int64))
    return (_readable(value) if isinstance(value, np.ndarray) else value,)


def _readable(array: np.ndarray) -> np.ndarray:
    """Convert an array for TensorFlow: strings become bytes objects, and numbers get the byte order of the machine.
    TensorFlow ignores the byte order of a numpy dtype.
    """
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "U":
        array = np.char.encode(array, "utf-8")
    return array.astype(object) if array.dtype.kind == "S" else array


def first_batch(build: Callable[[], Any]) -> Dict[str, Any]:
    """Return the first batch of a dataset as arrays. ``build`` is called in a new graph and returns the dataset.

    Raises:
        tf.errors.OpError: errors of the dataset.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session(config=_ON_CPU) as session:
        following = tf.compat.v1.data.make_one_shot_iterator(build()).get_next()
        return session.run(following)


class Transform:
    """A function that transforms batches, and the types of its results.

    Args:
        transform: a function, or the text "module:function".
        files: description of the files for error messages.
        first: the first batch. The function is called with it.

    Raises:
        ArgumentError: there is no such function.
        TransformError: the function fails for the first batch.
    """

    def __init__(self, transform: Union[str, Function], files: str, first: Callable[[], Dict[str, Any]]) -> None:
        self._name, self._function = function_of(transform)
        self._files = files
        batch = first()
        self._inputs = {name: isinstance(value, Sparse) for name, value in batch.items()}
        self._outputs: Optional[Dict[str, Output]] = None
        _, self._outputs = self._called(batch, "the first batch of {}".format(files))

    def applied(self, dataset: Any, threads: int, batch_size: Optional[int]) -> Any:
        """Return a dataset with the function's result for each batch of ``dataset``, in the same order.

        ``batch_size`` is the number of records, if it is known.
        """
        outputs = self._outputs or {}
        specs = [spec for name in sorted(outputs) for spec in _specs(outputs[name], batch_size)]

        @tf.autograph.experimental.do_not_convert
        def transformed(batch: Mapping[str, Any]) -> Dict[str, Any]:
            inputs = flat(batch)
            position = native.ops().asc_read_position(batch=inputs)
            results = tf.numpy_function(self._run, [position, *inputs], [spec.dtype for spec in specs])
            results = native.ops().asc_with_position(batch=inputs, tensors=results)
            for result, spec in zip(results, specs):
                result.set_shape(spec.shape)
            return composed(results, {name: output.is_sparse for name, output in outputs.items()}, tf.SparseTensor)

        return dataset.map(transformed, num_parallel_calls=threads)

    def _run(self, position: np.ndarray, *parts: np.ndarray) -> List[np.ndarray]:
        _, _, epoch, consumed = position.tolist()
        result, _ = self._called(composed(parts, self._inputs, Sparse), "the batch that ends before record {} of epoch "
                                 "{} of {}".format(consumed, epoch, self._files))
        return flat(result)

    def _called(self, batch: Dict[str, Any], where: str) -> Tuple[Mapping[str, Any], Dict[str, Output]]:
        records = records_of(batch)
        try:
            result = self._function(batch)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # raised by the program's function; sys.exit raises SystemExit
            raised = traceback.extract_tb(error.__traceback__)[-1]
            raise TransformError("Function {!r} of asc.data.read raised {}: {} (line {} of {}) in {}. {}".format(
                self._name, type(error).__name__, error, raised.lineno, raised.filename, where, _ACTION)) from error
        try:
            found = outputs_of(result, records)
            check_outputs(found, found if self._outputs is None else self._outputs)
        except ValueError as error:
            raise TransformError("Function {!r} of asc.data.read {}. This was {}. {}".format(
                self._name, error, where, _ACTION)) from error
        return result, found


def _specs(output: Output, batch_size: Optional[int]) -> List[tf.TensorSpec]:
    if output.is_sparse:
        rank = 1 + len(output.shape)
        return [tf.TensorSpec([None, rank], tf.int64), tf.TensorSpec([None], output.dtype),
                tf.TensorSpec([rank], tf.int64)]
    return [tf.TensorSpec([batch_size, *output.shape], output.dtype)]
