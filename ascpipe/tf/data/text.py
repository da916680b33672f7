"""Conversion of fields of text files (CSV, TSV) to attributes of the dataset op."""
from typing import Any, Collection, Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from ascpipe.data import criteo
from ascpipe.data.columns import HEX, Column
from ascpipe.data.formats import Format
from ascpipe.errors import FeatureError
from ascpipe.errors.base import shown
from ascpipe.tf.data.features import FINGERPRINT, NOT_HASHED, READ_ONCE, Hashed, RecordFeatures

_TYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)


class _Field(NamedTuple):
    name: str
    number: int
    dtype: tf.DType
    default: np.ndarray  # empty if the field is required
    is_hexadecimal: bool
    buckets: int


def text_features(features: Optional[Mapping[str, Any]], columns: Sequence[str], record_format: Format, path: str,
                  hexadecimal: Collection[str] = ()) -> RecordFeatures:
    """Return the features that a dict of specs describes. The values of the features are read from fields of text
    files.

    Args:
        features: name -> ``tf.io.FixedLenFeature`` with the shape ``[]``, or ``Hashed``. The names are names of fields.
        columns: names of all fields of a record.
        record_format: format of the files.
        path: a file, for error messages.
        hexadecimal: names of fields whose int64 values are written with hexadecimal digits.

    Raises:
        FeatureError: ``features`` is empty, a spec is not supported, a name is not the name of exactly one field, or
            two features read the same field.
    """
    if not isinstance(features, Mapping) or not features:
        raise FeatureError("The features of asc.data.read are {}. Pass a dict of specs, for example {{\"label\": "
                           "tf.io.FixedLenFeature([], tf.float32)}}".format(shown(features)))
    found = []
    for name, spec in features.items():
        key = spec.key if isinstance(spec, Hashed) else name
        if list(columns).count(key) != 1:
            raise FeatureError("Feature {!r} of asc.data.read is {} of {}, which are {}. Correct the name, or pass the "
                               "names of all fields as columns=[...]".format(
                                   key, "not a field" if key not in columns else "the name of several fields", path,
                                   ", ".join(map(repr, columns)) or "none"))
        field = _field(name, spec, list(columns).index(key))
        found.append(field._replace(is_hexadecimal=key in hexadecimal and field.dtype == tf.int64))
    numbers = [field.number for field in found]
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise FeatureError("Two features of asc.data.read read the field {!r}. {}".format(columns[twice], READ_ONCE))
    return _described(found, len(columns), record_format)


def criteo_features(features: Optional[Mapping[str, Any]]) -> RecordFeatures:
    """Return the features of the Criteo logs: all fields, or the fields in a dict of specs.

    int64 fields with hexadecimal digits in the logs are read as hexadecimal numbers.
    """
    specs = {column.name: _spec_of(column) for column in criteo.COLUMNS} if features is None else features
    return text_features(specs, [column.name for column in criteo.COLUMNS], criteo.FORMAT, "the Criteo logs",
                         {column.name for column in criteo.COLUMNS if column.type == HEX})


def _spec_of(column: Column) -> Any:
    return tf.io.FixedLenFeature([], tf.int64 if column.type == HEX else tf.as_dtype(column.type), column.default)


def _field(name: str, spec: Any, number: int) -> _Field:
    shape: Optional[Sequence[int]] = None
    dtype = tf.string
    buckets = NOT_HASHED
    if isinstance(spec, Hashed):
        shape = spec.shape
        buckets = FINGERPRINT if spec.buckets is None else spec.buckets
    elif isinstance(spec, tf.io.FixedLenFeature):
        shape = tf.TensorShape(spec.shape).as_list()
        dtype = tf.as_dtype(spec.dtype)
    if shape is None or list(shape) != [] or dtype not in _TYPES:
        raise FeatureError("Feature {!r} of asc.data.read is {}, but a field of a text file has one value. Pass "
                           "tf.io.FixedLenFeature([], dtype) with the dtype float32, float64, int32, int64 or string, "
                           "or asc.data.hashed() with the shape ()".format(name, shown(spec)))
    default = np.array([] if spec.default_value is None else [spec.default_value], dtype.as_numpy_dtype)
    return _Field(name, number, dtype, default, False, buckets)


def _described(fields: Sequence[_Field], count: int, record_format: Format) -> RecordFeatures:
    by_number = sorted(fields, key=lambda field: field.number)
    attributes: Dict[str, Any] = {
        "dense_keys": [field.name for field in by_number], "dense_types": [field.dtype for field in by_number],
        "dense_shapes": [tf.TensorShape([])] * len(fields),
        "dense_defaults": [tf.compat.v1.make_tensor_proto(field.default, field.dtype) for field in by_number],
        "sparse_keys": [], "sparse_types": [], "buckets": [field.buckets for field in by_number],
        "fields": [field.number for field in by_number],
        "hexadecimal": [field.is_hexadecimal for field in by_number], "selects_fields": len(fields) < count,
        "record_format": [int(value) for value in record_format]}
    specs = [tf.TensorSpec([None], field.dtype if field.buckets == NOT_HASHED else tf.int64) for field in by_number]

    def composed(*components: tf.Tensor) -> Dict[str, Any]:
        return {field.name: component for field, component in zip(by_number, components)}

    names = [field.name for field in by_number]
    return RecordFeatures(attributes, specs, names if names == sorted(names) else None, composed)
