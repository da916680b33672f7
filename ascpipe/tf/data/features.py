"""Conversion of features (TensorFlow's specs and hashed strings) to attributes of the dataset op."""
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from ascpipe.errors import FeatureError
from ascpipe.errors.base import shown
from ascpipe.tf.validation import Integer, Text

_PARSERS = ("ParseExample", "ParseExampleV2")
NOT_HASHED = -1  #: value in the attribute ``buckets`` for features that are not hashed, and for fingerprints
FINGERPRINT = 0
READ_ONCE = ("Nothing was read. Read it once, and add the other feature with dataset.map. For strings and their ids, "
             "read the strings, and call tf.strings.to_hash_bucket_fast (docs/how-to/training_data.md)")


class Hashed(NamedTuple):
    """A string feature that is read as ids. ``hashed`` creates this object.

    Attributes:
        key: name of the feature in the records.
        buckets: number of ids, or None for fingerprints.
        shape: shape of the values of a record, or None for any number of values.
        default_value: string or strings for records without the feature, or None if all records must have it.
    """

    key: str
    buckets: Optional[int]
    shape: Optional[Tuple[int, ...]]
    default_value: Any


class RecordFeatures(NamedTuple):
    """Features of a dataset.

    Attributes:
        attributes: attributes of the op ``AscReadDataset``.
        specs: specs of the components of an element. The first dimension of dense features is unknown.
        names: names of the components. None if a component is sparse, or if the names are not sorted.
        composed: function that returns the features of an element. Its arguments are the components.
    """

    attributes: Dict[str, Any]
    specs: List[tf.TensorSpec]
    names: Optional[List[str]]
    composed: Callable[..., Dict[str, Any]]


def hashed(key: str, buckets: Optional[int] = None, shape: Optional[Sequence[int]] = (),
           default_value: Any = None) -> Hashed:
    """Return the spec of a string feature that is read as int64 ids.

    The ids equal ``tf.strings.to_hash_bucket_fast(strings, buckets)``, which is FarmHash's Fingerprint64 modulo
    ``buckets``. Without ``buckets``, the ids are the fingerprints without the highest bit, so they are not negative:
    ``tf.bitwise.bitwise_and(tf.bitcast(tf.fingerprint(strings), tf.int64), 2**63 - 1)``.

    Args:
        key: name of the feature in the records.
        buckets: number of ids.
        shape: shape of the values of a record. None reads any number of values into a SparseTensor.
        default_value: string or strings for records without the feature. Without it, such a record is an error.

    Raises:
        ArgumentError: an argument has a wrong type or value.
    """
    Text(1, 10 ** 6).check("key", key)
    Integer(1, 2 ** 62, optional=True).check("buckets", buckets)
    return Hashed(key, buckets, None if shape is None else tuple(shape), default_value)


def record_features(features: Optional[Mapping[str, Any]]) -> RecordFeatures:
    """Return the features that a dict of specs describes.

    The specs are checked by TensorFlow's ``tf.io.parse_example``, and the attributes are read from its op.

    Raises:
        FeatureError: there is no feature, a spec has a wrong type, or two features read the same values.
        ValueError, TypeError: TensorFlow's errors for a spec.
    """
    if not isinstance(features, Mapping) or not features:
        raise FeatureError("The features of asc.data.read are {}. Pass a dict of specs, for example {{\"label\": "
                           "tf.io.FixedLenFeature([], tf.float32)}}. `ascpipe data head` prints the dict for a "
                           "file".format(shown(features)))
    buckets: Dict[str, int] = {}
    keys: Dict[str, str] = {}
    specs: Dict[str, Any] = {}
    for name, spec in features.items():
        key = name
        if isinstance(spec, Hashed):
            key = spec.key
            buckets[_text(key)] = FINGERPRINT if spec.buckets is None else spec.buckets
            spec = (tf.io.VarLenFeature(tf.string) if spec.shape is None else
                    tf.io.FixedLenFeature(spec.shape, tf.string, spec.default_value))
        elif not isinstance(spec, (tf.io.FixedLenFeature, tf.io.VarLenFeature, tf.io.FixedLenSequenceFeature,
                                   tf.io.SparseFeature)):
            raise FeatureError("Feature {!r} of asc.data.read is {}. Pass a tf.io.FixedLenFeature, VarLenFeature, "
                               "FixedLenSequenceFeature or SparseFeature, or asc.data.hashed()".format(
                                   name, shown(spec)))
        if _text(key) in keys:
            raise FeatureError("Features {!r} and {!r} of asc.data.read both read the feature {!r} of the records. "
                               "{}".format(keys[_text(key)], name, key, READ_ONCE))
        specs[key] = spec
        keys[_text(key)] = name
    return _described(specs, keys, buckets)


def _described(specs: Dict[str, Any], names: Dict[str, str], buckets: Dict[str, int]) -> RecordFeatures:
    parsed = _parse_op(specs)
    dense = sorted(parsed.dense, key=lambda one: names.get(one.key, one.key))
    plain = not parsed.sparse and {one.key for one in dense} == set(names)
    attributes = {
        "dense_keys": [_bytes(one.key) for one in dense], "dense_types": [one.dtype for one in dense],
        "dense_shapes": [one.shape for one in dense],
        "dense_defaults": [tf.compat.v1.make_tensor_proto(one.default, one.dtype) for one in dense],
        "sparse_keys": [_bytes(key) for key, _ in parsed.sparse], "sparse_types": [dtype for _, dtype in parsed.sparse],
        "buckets": [buckets.get(key, NOT_HASHED) for key in
                    [one.key for one in dense] + [key for key, _ in parsed.sparse]]}

    def type_of(key: str, dtype: tf.DType) -> tf.DType:
        return tf.int64 if key in buckets else dtype

    types = [type_of(key, dtype) for key, dtype in parsed.sparse]
    elements = [tf.TensorSpec(tf.TensorShape([None]).concatenate(one.shape), type_of(one.key, one.dtype))
                for one in dense]
    elements += [tf.TensorSpec([None, 2], tf.int64) for _ in types]
    elements += [tf.TensorSpec([None], dtype) for dtype in types]
    elements += [tf.TensorSpec([2], tf.int64) for _ in types]

    def composed(*components: tf.Tensor) -> Dict[str, Any]:
        raw: Dict[str, Any] = {}
        count = len(parsed.sparse)
        for number, (key, _) in enumerate(parsed.sparse):
            first = len(dense) + number
            raw[key] = tf.SparseTensor(components[first], components[first + count], components[first + 2 * count])
        raw.update((one.key, tensor) for one, tensor in zip(dense, components))
        merged = {_text(key): _merged(raw, spec) for key, spec in specs.items()
                  if isinstance(spec, tf.io.SparseFeature)}
        return {names[key]: value for key, value in {**raw, **merged}.items() if key in names}

    return RecordFeatures(attributes, elements, [names[one.key] for one in dense] if plain else None, composed)


def _merged(parsed: Dict[str, Any], spec: Any) -> tf.SparseTensor:
    """Build a SparseTensor from two features, as ``tf.io.parse_example`` does for a ``SparseFeature``."""
    keys = spec.index_key
    indices = [parsed[_text(key)] for key in keys] if isinstance(keys, list) else parsed[_text(keys)]
    return tf.compat.v1.sparse_merge(indices, parsed[_text(spec.value_key)], spec.size,
                                     already_sorted=spec.already_sorted)


def _text(key: Union[str, bytes]) -> str:
    """Return the name of a feature as text. TensorFlow also accepts names as bytes, which may be invalid UTF-8."""
    return key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


class _Dense(NamedTuple):
    key: str
    dtype: tf.DType
    shape: tf.TensorShape
    default: np.ndarray


class _Parsed(NamedTuple):
    dense: List[_Dense]
    sparse: List[Tuple[str, tf.DType]]


def _constant(tensor: tf.Tensor) -> Any:
    """Return the value of a constant or a reshaped constant. Return None if the tensor is the placeholder of the
    records.
    """
    if tensor.op.type == "Reshape":
        return _constant(tensor.op.inputs[0]).reshape(tensor.shape.as_list())
    return tf.get_static_value(tensor)


def _parse_op(specs: Dict[str, Any]) -> _Parsed:
    """Return the features that TensorFlow's parser would read according to the specs."""
    with tf.Graph().as_default() as graph:
        tf.io.parse_example(tf.compat.v1.placeholder(tf.string, [None]), specs)
        op = next(op for op in graph.get_operations() if op.type in _PARSERS)
        inputs = [_constant(tensor) for tensor in op.inputs]
        types = op.get_attr("sparse_types")
        dense_types = op.get_attr("Tdense")
        shapes = [tf.TensorShape(shape) for shape in op.get_attr("dense_shapes")]
    if op.type == "ParseExample":  # serialized, names, sparse keys, dense keys, dense defaults
        keys = [value.item() for value in inputs[2:2 + len(types) + len(dense_types)]]
    else:  # serialized, names, sparse keys, dense keys, ragged keys, dense defaults
        keys = [*inputs[2], *inputs[3]]
    keys = [_text(key) for key in keys]
    defaults = inputs[len(inputs) - len(dense_types):]
    return _Parsed([_Dense(*one) for one in zip(keys[len(types):], dense_types, shapes, defaults)],
                   list(zip(keys, types)))
