"""Features that the records of a file contain, and the TensorFlow feature specs for these features."""
import ctypes
import json
from ctypes import c_void_p
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from ascpipe.data import native
from ascpipe.layout.calls import FeatureFacts

#: Types of features: ValueType of ``tfops/src/input/example_parser.h`` -> name in tf.
TYPES = {0: None, 1: "string", 2: "float32", 3: "int64"}


class Feature(NamedTuple):
    """A feature of some records.

    Attributes:
        name: name of the feature. Bytes that are not UTF-8 are escaped with ``surrogateescape``.
        type: ``"int64"``, ``"float32"``, ``"string"``, or None if no record has values.
        records: number of records that have the feature.
        least, most: minimum and maximum number of values in these records.
        other: number of the first record in which the feature has another type, or None.
    """

    name: str
    type: Optional[str]
    records: int
    least: int
    most: int
    other: Optional[int] = None


class FileSchema:
    """Features of the records of one file. ``RecordFile.check`` collects the features."""

    def __init__(self) -> None:
        self.handle = c_void_p(native.library().asc_data_schema_new())

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            native.library().asc_data_schema_free(self.handle)

    @property
    def records(self) -> int:
        """Return the number of valid records, each of which is a tf.train.Example."""
        return int(native.library().asc_data_schema_records(self.handle))

    def features(self) -> List[Feature]:
        """Return the features, sorted by name."""
        describe = native.library().asc_data_schema_features
        count = describe(self.handle, 0, None)
        facts = (FeatureFacts * count)()
        describe(self.handle, count, facts)
        return sorted(Feature(_name(one), TYPES[one.type], one.records, one.least, one.most,
                              None if one.other < 0 else one.other) for one in facts if one.records > 0)


def _name(facts: FeatureFacts) -> str:
    return ctypes.string_at(facts.name, facts.name_bytes).decode("utf-8", "surrogateescape")


class Conflict(NamedTuple):
    """A feature that has different types in different records.

    Attributes:
        name: name of the feature.
        type: first type.
        where: description of the record that has another type.
    """

    name: str
    type: Optional[str]
    where: str


def merged(files: Iterable[Tuple[str, List[Feature]]]) -> Tuple[List[Feature], List[Conflict]]:
    """Merge the features of several files. Return the features, sorted by name, and the features whose types differ.

    Args:
        files: path and features of each file.
    """
    together: Dict[str, Feature] = {}
    conflicts: Dict[str, Conflict] = {}
    for path, features in files:
        for one in features:
            known = together.get(one.name, one)
            where = None
            if one.other is not None:
                where = "record {} of {} has another type".format(one.other, path)
            elif None not in (known.type, one.type) and known.type != one.type:
                where = "{} has {}".format(path, one.type)
            if where is not None:
                conflicts.setdefault(one.name, Conflict(one.name, known.type or one.type, where))
            if one.name in together:
                one = Feature(one.name, known.type or one.type, known.records + one.records,
                              min(known.least, one.least), max(known.most, one.most), None)
            together[one.name] = one
    return ([together[name] for name in sorted(together)], [conflicts[name] for name in sorted(conflicts)])


def spec(feature: Feature, records: int) -> str:
    """Return the TensorFlow feature spec of a feature, for example ``tf.io.FixedLenFeature([13], tf.float32)``.

    A feature has a fixed length if all records have the same number of values, and at least one.

    Args:
        feature: the feature.
        records: number of all records.
    """
    dtype = "tf." + (feature.type or "string")
    if feature.records == records and feature.least == feature.most > 0:
        return "tf.io.FixedLenFeature([{}], {})".format("" if feature.most == 1 else feature.most, dtype)
    return "tf.io.VarLenFeature({})".format(dtype)


def spec_lines(features: Iterable[Feature], records: int) -> List[str]:
    """Return lines of Python code that define a dict with the spec of each feature."""
    return ["features = {", *("    {}: {},".format(quoted(one.name), spec(one, records)) for one in features), "}"]


def quoted(name: str) -> str:
    """Return a name as a Python string literal."""
    return json.dumps(name) if name.isprintable() else ascii(name)
