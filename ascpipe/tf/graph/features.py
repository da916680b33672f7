"""Features of the batches, the thresholds that they give tables, and the streams that submit them.

A stream is one insert function of a graph.
"""
import dataclasses
import itertools
import re
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple, Union

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.running.shapes import Thresholds
from ascpipe.tf.validation import AnyOf, Integer, Text, boolean, check_all, checked

CHANNEL_NAMES = {TRAIN: "training", EVAL: "evaluation"}

TABLE_NAME_PATTERN = re.compile(r"^[0-9A-Za-z_.]+$")

OFF = Thresholds()  #: says nothing: neither admission nor eviction


def clean_table_name(name: str) -> str:
    """A table's name as it is known everywhere: without the characters that a variable's name cannot have."""
    cleaned = re.sub(r"\W", "", name, flags=re.ASCII)
    if not cleaned:
        raise ValueError("table name {!r} has no letter, digit or underscore".format(name))
    return cleaned


class FeatureSpec:
    """One feature: a tensor of ids in each batch.

    Args:
        name: str of 1 to 255 characters.
        table_name: str of 1 to 255 characters, the table it looks into; else ``name``.
        index_key: str: key of a dict batch, or int in [0, 255]: place in a list or tuple batch; else ``name``, or the
            table's name where the batch has no such key.
        access_threshold: int in [-1, 2147483647]: occurrences before a key gets a row; 0: on, every key gets one;
            -1 or None: off.
        eviction_threshold: int in [-1, 2147483647]: age at which an eviction drops a key that was not used since,
            in the unit of the timestamps; needs a timestamp feature in training; -1 or None: off.
        is_timestamp: True: this feature is the time of the batch, a scalar above 0, and no ids.
        batch_size: int in [1, 2147483647].
        faae_coefficient: int in [1, 2147483647]: how much an occurrence counts.
        feat_count: accepted, without effect.

    Attributes:
        label: the name as given.
        name: the same, and a number that makes it unique in the process.
        feat_cnt, split: ids per example, and per batch; None until a batch of known shape was seen, and only
            with static shapes.

    Raises:
        ValueError: an argument of the wrong type or out of range.
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
        #: in the order in which a batch is asked for them
        self.index_keys: Tuple[Union[str, int], ...] = (
            (name, name if table_name is None else table_name) if index_key is None else (index_key,))

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds that the feature gives its table."""
        return thresholds(self.access_threshold, self.eviction_threshold, self.faae_coefficient)

    def set_static_shape(self, ids: Any) -> None:
        """Note the shape of the ids in static mode.

        Raises:
            ValueError: the ids are a scalar or of unknown rank, or have another shape than before.
        """
        rank = ids.shape.rank
        if rank is None or rank < 1:
            raise ValueError("FeatureSpec {!r}: static shapes (use_dynamic=False) need ids with at least one "
                             "dimension, this tensor has the shape {}".format(self.label, ids.shape))
        if not ids.shape.is_fully_defined():
            return
        batch_size = ids.shape[0].value
        feat_cnt = ids.shape[1:].num_elements()
        seen = (self.batch_size, self.feat_cnt)
        if None not in seen and seen != (batch_size, feat_cnt):
            raise ValueError("FeatureSpec {!r}: ids of shape {} after a batch of {} with {} ids each; static shapes "
                             "(use_dynamic=False) cannot change".format(self.label, ids.shape, *seen))
        self.batch_size = batch_size
        self.feat_cnt = feat_cnt
        self.split = batch_size * feat_cnt

    def require_timestamp(self, tensor: Any) -> None:
        """Check the tensor of this feature: only a timestamp feature is a scalar."""
        if self.is_timestamp is False:
            raise ValueError("FeatureSpec {!r}: is_timestamp=False says nothing; leave it out".format(self.label))
        if self.is_timestamp and tensor.shape.rank != 0:
            raise ValueError("FeatureSpec {!r}: the timestamp of a batch is a scalar, this tensor has the shape {}"
                             .format(self.label, tensor.shape))

    def __repr__(self) -> str:
        return "FeatureSpec({!r}, table_name={!r}, index_key={!r})".format(self.label, self.table_name, self.index_key)


@dataclasses.dataclass(frozen=True)
class Feature:
    """One input of a stream's AscSubmit.

    Attributes:
        spec: the feature, as the program declared it.
        shape: static shape of its ids; of the values where they are sparse.
        sparse: whether the batches hold a SparseTensor or RaggedTensor.
    """

    spec: FeatureSpec
    shape: tf.TensorShape
    sparse: bool = False


@dataclasses.dataclass
class Stream:
    """One insert function in one graph.

    Attributes:
        number: of the stream, unlike that of any other since ``init``; an attribute of its ops.
        channel: TRAIN or EVAL.
        features: inputs of its AscSubmit, in their order: by table, then by name.
        timestamp: the feature that says when a batch was made, if there is one.
    """

    number: int
    channel: int
    features: List[Feature] = dataclasses.field(default_factory=list)
    timestamp: Optional[FeatureSpec] = None

    def table_names(self) -> List[str]:
        """Tables of the stream, in the order of their parts in a frame."""
        return sorted({feature.spec.table_name for feature in self.features})

    def features_of(self, table_name: str) -> List[Feature]:
        """The features that look into a table, in the order of the lookups' restore indexes."""
        return [feature for feature in self.features if feature.spec.table_name == table_name]


class TableThresholds:
    """The thresholds of each table of a graph. A feature or lookup without any leaves them as they are."""

    def __init__(self) -> None:
        self._said: Dict[str, Tuple[Thresholds, str]] = {}  # what was said first, and by what

    def note(self, table_name: str, said: Thresholds, by: str) -> None:
        """Remember what ``by`` says. Raises ``ValueError`` where another feature or lookup said something else."""
        if said != OFF:
            require_same(table_name, *self._said.setdefault(table_name, (said, by)), said, by)

    def of(self, table_name: str) -> Thresholds:
        """The thresholds of a table."""
        return self._said[table_name][0] if table_name in self._said else OFF


def checked_thresholds(config: Optional[Dict[str, Any]]) -> Thresholds:
    """Thresholds from a lookup's ``access_and_evict_config``. Raises ``ValueError`` for one out of range."""
    config = config or {}
    check_all({"access_threshold": Integer(-1, optional=True), "eviction_threshold": Integer(-1, optional=True),
               "faae_coefficient": Integer(1, optional=True)}, config)
    return thresholds(config.get("access_threshold"), config.get("eviction_threshold"), config.get("faae_coefficient"))


def require_same(table_name: str, ours: Thresholds, by_us: str, theirs: Thresholds, by_them: str) -> None:
    """Raise ``ValueError`` where two features or lookups say different things of one table."""
    if ours != theirs:
        raise ValueError("{} and {} of table {!r} have different thresholds: {} and {}; a table has one "
                         "access_threshold, eviction_threshold and faae_coefficient".format(
                             by_us, by_them, table_name, _text(ours), _text(theirs)))


def _text(said: Thresholds) -> str:
    return "access_threshold={}, eviction_threshold={}, faae_coefficient={}".format(*said)


def thresholds(access: Optional[int], eviction: Optional[int], coefficient: Optional[int]) -> Thresholds:
    """Thresholds from arguments; None stands for an argument that was left out."""
    return Thresholds(-1 if access is None else int(access), -1 if eviction is None else int(eviction),
                      1 if coefficient is None else int(coefficient))
