"""Features of batches, thresholds that features set for tables, and streams that submit features."""
import dataclasses
import itertools
import re
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple, Union

import tensorflow as tf

from ascpipe.errors import FeatureError, TableError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.running.shapes import Thresholds
from ascpipe.tf.validation import AnyOf, Integer, Text, boolean, check_all, checked

CHANNEL_NAMES = {TRAIN: "training", EVAL: "evaluation"}

TABLE_NAME_PATTERN = re.compile(r"^[0-9A-Za-z_.]+$")

OFF = Thresholds()  #: neither admission nor eviction


def clean_table_name(name: str) -> str:
    """Remove all characters except ASCII letters, digits and underscores from a table's name."""
    cleaned = re.sub(r"\W", "", name, flags=re.ASCII)
    if not cleaned:
        raise TableError("Table name {!r} has no letter, digit or underscore".format(name))
    return cleaned


class FeatureSpec:
    """Feature of a batch: a tensor of ids, or a timestamp of the batch.

    Args:
        name: str of 1 to 255 characters.
        table_name: str of 1 to 255 characters, the table of the feature. It defaults to ``name``.
        index_key: a str is the key of the ids in a dict batch. An int in [0, 255] is the position of the ids in a list
            or tuple batch. ``index_key`` defaults to ``name``, or to the table's name if the batch has no key ``name``.
        access_threshold: int in [-1, 2147483647], number of occurrences at which a key gets a row. With 0, every key
            gets a row. -1 and None turn admission off.
        eviction_threshold: int in [-1, 2147483647], age at which an eviction deletes an unused key, in the unit of the
            timestamps. Training then needs a timestamp feature. -1 and None turn eviction off.
        is_timestamp: True if this feature is the timestamp of the batch, a scalar greater than 0, instead of ids.
        batch_size: int in [1, 2147483647]. It has no effect, because a lookup uses the batch size of its data. With
            static shapes, the attribute ``batch_size`` is set to the batch size of the data.
        faae_coefficient: int in [1, 2147483647], weight of an occurrence.
        feat_count: has no effect.

    Attributes:
        label: argument ``name``.
        name: argument ``name`` with a number that makes the name unique in the process.
        feat_cnt: ids per example. The value is None until the shape of a batch is known. It is always None with dynamic
            shapes.
        split: ids per batch, or None in the same cases as ``feat_cnt``.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
    """

    _numbers: ClassVar[Iterator[int]] = itertools.count()

    @checked(name=Text(1, 255), table_name=Text(1, 255, optional=True),
             index_key=AnyOf(Text(1, 255), Integer(0, 255), optional=True),
             access_threshold=Integer(-1, optional=True), eviction_threshold=Integer(-1, optional=True),
             is_timestamp=boolean(optional=True), batch_size=Integer(1, optional=True), faae_coefficient=Integer(1))
    def __init__(self, name: str, table_name: Optional[str] = None, index_key: Union[str, int, None] = None,
                 access_threshold: Optional[int] = None, eviction_threshold: Optional[int] = None,
                 is_timestamp: Optional[bool] = None, batch_size: Optional[int] = None, faae_coefficient: int = 1,
                 feat_count: Optional[int] = None) -> None:
        self.label = name
        self.name = "{}_{}".format(name, next(FeatureSpec._numbers))
        self.table_name = clean_table_name(name if table_name is None else table_name)
        self.access_threshold = access_threshold
        self.eviction_threshold = eviction_threshold
        self.is_timestamp = is_timestamp
        self.batch_size = batch_size
        self.faae_coefficient = faae_coefficient
        self.feat_cnt: Optional[int] = None
        self.split: Optional[int] = None
        self.index_key: Union[str, int] = name if index_key is None else index_key
        #: Keys to search in a batch, in order.
        self.index_keys: Tuple[Union[str, int], ...] = (
            (name, name if table_name is None else table_name) if index_key is None else (index_key,))

    @property
    def thresholds(self) -> Thresholds:
        """Return the thresholds that the feature sets for the feature's table."""
        return thresholds(self.access_threshold, self.eviction_threshold, self.faae_coefficient)

    def set_static_shape(self, ids: Any) -> None:
        """Record the shape of the ids in static mode.

        Raises:
            ValueError: the ids are a scalar or of unknown rank, or their shape has changed.
        """
        rank = ids.shape.rank
        if rank is None or rank < 1:
            raise FeatureError("FeatureSpec {!r}: the tensor has the shape {}. With static shapes "
                               "(use_dynamic=False), ids need at least one dimension".format(self.label, ids.shape))
        if not ids.shape.is_fully_defined():
            return
        batch_size = ids.shape[0].value
        feat_cnt = ids.shape[1:].num_elements()
        seen = (self.batch_size, self.feat_cnt)
        if None not in seen and seen != (batch_size, feat_cnt):
            raise FeatureError("FeatureSpec {!r}: ids have the shape {}, after a batch of {} with {} ids each. "
                               "Static shapes (use_dynamic=False) cannot change".format(self.label, ids.shape, *seen))
        self.batch_size = batch_size
        self.feat_cnt = feat_cnt
        self.split = batch_size * feat_cnt

    def require_timestamp(self, tensor: Any) -> None:
        """Raise ``ValueError`` if ``is_timestamp`` is False or if a timestamp is not a scalar."""
        if self.is_timestamp is False:
            raise FeatureError("FeatureSpec {!r}: is_timestamp=False has no effect. Omit it".format(self.label))
        if self.is_timestamp and tensor.shape.rank != 0:
            raise FeatureError("FeatureSpec {!r}: the timestamp of a batch is a scalar, but this tensor has the "
                               "shape {}".format(self.label, tensor.shape))

    def __repr__(self) -> str:
        return "FeatureSpec({!r}, table_name={!r}, index_key={!r})".format(self.label, self.table_name, self.index_key)


@dataclasses.dataclass(frozen=True)
class Feature:
    """Feature of a stream, which is one input of the stream's op AscSubmit.

    Attributes:
        shape: static shape of the ids. For sparse ids, it is the static shape of the values.
        sparse: True if the batches contain a SparseTensor or RaggedTensor.
    """

    spec: FeatureSpec
    shape: tf.TensorShape
    sparse: bool = False


@dataclasses.dataclass
class Stream:
    """Stream of the batches that one insert function submits in one graph.

    Attributes:
        number: number that is unique since ``init``, and is an attribute of the stream's ops.
        channel: TRAIN or EVAL.
        features: inputs of the stream's AscSubmit, ordered by table, then by name.
        timestamp: the feature with the timestamp of the batch, or None.
    """

    number: int
    channel: int
    features: List[Feature] = dataclasses.field(default_factory=list)
    timestamp: Optional[FeatureSpec] = None

    def table_names(self) -> List[str]:
        """Return the names of the stream's tables, in the order of the tables in a frame."""
        return sorted({feature.spec.table_name for feature in self.features})

    def features_of(self, table_name: str) -> List[Feature]:
        """Return the features of a table, in the order of the restore indices in the table's lookup."""
        return [feature for feature in self.features if feature.spec.table_name == table_name]


class TableThresholds:
    """Thresholds of the tables of one graph."""

    def __init__(self) -> None:
        self._said: Dict[str, Tuple[Thresholds, str]] = {}  # the first recorded thresholds, and their source

    def note(self, table_name: str, said: Thresholds, by: str) -> None:
        """Record thresholds that a feature or lookup sets for a table. ``OFF`` is ignored.

        Raise ``ValueError`` if different thresholds of the table are already recorded. ``by`` is the name of the
        feature or lookup for the message.
        """
        if said != OFF:
            require_same(table_name, *self._said.setdefault(table_name, (said, by)), said, by)

    def of(self, table_name: str) -> Thresholds:
        """Return the recorded thresholds of a table, or ``OFF`` if no thresholds are recorded."""
        return self._said[table_name][0] if table_name in self._said else OFF


def checked_thresholds(config: Optional[Dict[str, Any]]) -> Thresholds:
    """Return the thresholds of an ``access_and_evict_config``. Raise ``ValueError`` if a threshold is out of range."""
    config = config or {}
    check_all({"access_threshold": Integer(-1, optional=True), "eviction_threshold": Integer(-1, optional=True),
               "faae_coefficient": Integer(1, optional=True)}, config)
    return thresholds(config.get("access_threshold"), config.get("eviction_threshold"), config.get("faae_coefficient"))


def require_same(table_name: str, ours: Thresholds, by_us: str, theirs: Thresholds, by_them: str) -> None:
    """Raise ``ValueError`` if two features or lookups of one table set different thresholds."""
    if ours != theirs:
        raise FeatureError("{} and {} of table {!r} have different thresholds: {} and {}. A table has one "
                           "access_threshold, eviction_threshold and faae_coefficient".format(
                               by_us, by_them, table_name, _text(ours), _text(theirs)))


def _text(said: Thresholds) -> str:
    return "access_threshold={}, eviction_threshold={}, faae_coefficient={}".format(*said)


def thresholds(access: Optional[int], eviction: Optional[int], coefficient: Optional[int]) -> Thresholds:
    """Return ``Thresholds`` for arguments of a FeatureSpec or lookup. None means that an argument was omitted."""
    return Thresholds(-1 if access is None else int(access), -1 if eviction is None else int(eviction),
                      1 if coefficient is None else int(coefficient))
