"""Conversion of columns of Parquet files to attributes of the dataset op."""
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from ascpipe.data import formats, parquet
from ascpipe.data.parquet import ANY_LENGTH, SCALAR, Column, Footer
from ascpipe.errors import FeatureError
from ascpipe.logs import counted
from ascpipe.tf.data.features import RecordFeatures, record_features


class _Wanted(NamedTuple):
    """Column that a feature needs.

    Attributes:
        name: name of the column.
        dtype: type of the values in the column, before strings are hashed.
        length: number of values of each row, or None for any number.
    """

    name: str
    dtype: tf.DType
    length: Optional[int]


def parquet_features(features: Optional[Mapping[str, Any]], paths: Sequence[str]) -> RecordFeatures:
    """Return the features that a dict of specs describes. The values of the features are read from columns of Parquet
    files.

    Raises:
        FeatureError: a spec is not supported, or a file has no column with the name or type of a feature.
        ParquetMissingError: pyarrow is not installed.
        DamagedRecordsError, DataChangedError, DataUnreadableError: a footer cannot be read.
    """
    parquet.required(paths[0])
    described = record_features(features)
    wanted = _wanted(described.attributes)
    row_groups = []
    for path in paths:
        footer = parquet.footer(path)
        for one in wanted:
            _check(one, footer)
        row_groups += [footer.bytes, footer.modified_ns, len(footer.rows), *footer.rows]
    attributes: Dict[str, Any] = {"record_format": [int(value) for value in formats.PARQUET],
                                  "row_groups": row_groups, **described.attributes}
    return described._replace(attributes=attributes)


def _wanted(attributes: Dict[str, Any]) -> Sequence[_Wanted]:
    """Return the columns that the features of a dataset op need."""
    found = []
    for key, dtype, shape in zip(attributes["dense_keys"], attributes["dense_types"], attributes["dense_shapes"]):
        name = _name(key)
        if not shape.is_fully_defined() or shape.num_elements() == 0:
            raise FeatureError("Feature {!r} of asc.data.read has the shape {}, but features of Parquet files have a "
                               "known number of values, or are sparse. Pass tf.io.FixedLenFeature([n], dtype) or "
                               "tf.io.VarLenFeature(dtype)".format(name, shape))
        found.append(_Wanted(name, dtype, shape.num_elements()))
    return found + [_Wanted(_name(key), dtype, None)
                    for key, dtype in zip(attributes["sparse_keys"], attributes["sparse_types"])]


def _name(key: bytes) -> str:
    name = key.decode("utf-8", "replace")
    if "\0" in name or name.encode() != key:
        raise FeatureError("Feature {!r} of asc.data.read cannot be the name of a column of a Parquet file. Correct "
                           "the name".format(key))
    return name


def _check(wanted: _Wanted, footer: Footer) -> None:
    named = [column for column in footer.columns if column.name == wanted.name]
    if len(named) != 1:
        raise FeatureError("{} has {} with the name {!r}, which asc.data.read reads. Nothing was read. The columns of "
                           "the file are {}. Correct the name".format(
                               footer.path, "{} columns".format(len(named)) if named else "no column", wanted.name,
                               ", ".join("{!r} ({})".format(column.name, column.described)
                                         for column in footer.columns) or "none"))
    reason = _mismatch(wanted, named[0])
    if reason is not None:
        raise FeatureError("Column {!r} of {} has the type {}, and the feature reads {} of the type {} in each row: "
                           "{}. Nothing was read. Correct the feature (`ascpipe data head` prints the features of the "
                           "file)".format(wanted.name, footer.path, named[0].described, _counted(wanted.length),
                                          wanted.dtype.name, reason))


def _mismatch(wanted: _Wanted, column: Column) -> Optional[str]:
    """Return the reason why a feature cannot read a column, or None if the column is suitable."""
    if column.type is None:
        return "asc.data.read reads integers, bools, floats, strings, and lists of them"
    if column.type != wanted.dtype.name and not (column.is_whole and wanted.dtype == tf.float32):
        return "the types differ"
    length = 1 if column.length is SCALAR else column.length
    if wanted.length is not None and length not in (ANY_LENGTH, wanted.length):
        return "each row has {}".format(_counted(length))
    return None


def _counted(length: Optional[int]) -> str:
    return "any number of values" if length is None else counted(length, "value")
