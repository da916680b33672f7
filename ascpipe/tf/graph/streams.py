"""Streams: the insert functions of one graph, each with the features that it submits."""
import dataclasses
from typing import List, Optional

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.feature_spec import FeatureSpec

CHANNEL_NAMES = {TRAIN: "training", EVAL: "evaluation"}


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
