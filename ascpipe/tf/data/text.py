"""Fields of text files (CSV, TSV), as attributes of the dataset op."""
import csv
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from ascpipe.data import criteo, formats
from ascpipe.data.columns import HEX, Column
from ascpipe.data.files import TSV
from ascpipe.data.formats import Format
from ascpipe.data.records import RecordFile
from ascpipe.errors import FeatureError
from ascpipe.errors.base import shown
from ascpipe.tf.data.features import FINGERPRINT, NOT_HASHED, Hashed, RecordFeatures

_TYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)
_BOM = b"\xef\xbb\xbf"  # a mark that some programs write before UTF-8


class _Field(NamedTuple):
    name: str
    number: int
    dtype: tf.DType
    default: np.ndarray  # empty if the field is required
    is_hexadecimal: bool
    buckets: int


def text_format(kind: str, columns: Optional[Sequence[str]]) -> Format:
    """Return the format of files that are ``CSV`` or ``TSV``. Without names of columns, the first record is a header.
    """
    return formats.text("\t" if kind == TSV else ",", header=columns is None)


def header_of(path: str, record_format: Format) -> List[str]:
    """Return the names of the fields, from the first record of a file.

    Raises:
        FeatureError: the file is empty.
        DataError: the record cannot be read.
    """
    with RecordFile(path, None, record_format._replace(header=False)) as file:
        first = file.read()
    if first is None:
        raise FeatureError("{} is empty, and its first record should have the names of the fields. Nothing was read. "
                           "Write the names, or pass columns=[...] to asc.data.read".format(path))
    data = first.data[len(_BOM):] if first.data.startswith(_BOM) else first.data
    text = data.decode("utf-8", "surrogateescape")
    return next(csv.reader([text], delimiter=chr(record_format.delimiter),
                           quoting=csv.QUOTE_MINIMAL if record_format.use_quote_delim else csv.QUOTE_NONE), [])


def text_features(features: Optional[Mapping[str, Any]], columns: Sequence[str], record_format: Format,
                  path: str) -> RecordFeatures:
    """Return the features of the fields that a dict of specs reads.

    Args:
        features: name -> ``tf.io.FixedLenFeature`` with the shape ``[]``, or ``Hashed``. The names are names of fields.
        columns: names of all fields of a record.
        record_format: format of the files.
        path: a file, for error messages.

    Raises:
        FeatureError: there is no feature, a spec is not supported, or a name is not a field or the name of two fields.
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
                                   ", ".join(map(repr, columns))))
        found.append(_field(name, spec, list(columns).index(key)))
    numbers = [field.number for field in found]
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        raise FeatureError("Two features of asc.data.read read the field {!r}. Read it once, and map the "
                           "dataset".format(columns[twice]))
    return _described(found, len(columns), record_format)


def criteo_features() -> RecordFeatures:
    """Return the features of all fields of the Criteo logs."""
    found = [_field(column.name, _spec_of(column), number)._replace(is_hexadecimal=column.type == HEX)
             for number, column in enumerate(criteo.COLUMNS)]
    return _described(found, len(found), criteo.FORMAT)


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
