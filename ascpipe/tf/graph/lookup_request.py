"""Arguments of one lookup, independent of the API that the program uses."""
import dataclasses
from typing import Any, Optional, Union

import tensorflow as tf

from ascpipe.errors import TableLookupError
from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.running.shapes import Thresholds


@dataclasses.dataclass(frozen=True)
class LookupRequest:
    """Arguments of one lookup. Fields default to the defaults of ``mx_rec``.

    Attributes:
        ids: FeatureSpec whose ids are submitted by an insert function, or integers that the program computes from a
            batch.
        batch: result of ``iterator.get_next()`` or its features, if ``ids`` is a FeatureSpec.
        channel: TRAIN or EVAL.
        is_open: True if the channel is TRAIN provisionally. The channel becomes EVAL unless the program requests a
            gradient of this lookup.
        is_grad: True if the lookup trains the rows.
        default_value: float, scalar or [dim], for keys without a row. None means zeros.
        unseen: kind of row that is returned for a key without a row in evaluation.
        values_alone: True to return one row for each value of sparse ids instead of the rows of the dense form.
        send_count: maximum number of distinct keys of a batch. It is required with static shapes, and ignored with
            dynamic shapes.
        thresholds: thresholds that this lookup sets for the table.
        name: name of the returned tensor.
    """

    table: Table
    ids: Union[FeatureSpec, Ids]
    batch: Any = None
    channel: int = TRAIN
    is_open: bool = False
    is_grad: bool = True
    default_value: Any = None
    unseen: Unseen = Unseen.DEFAULT_ROW
    values_alone: bool = False
    send_count: Optional[int] = None
    thresholds: Thresholds = Thresholds()
    name: Optional[str] = None

    @property
    def trains(self) -> bool:
        """Return whether the rows of the lookup may get a gradient. Open lookups count as training lookups."""
        return self.is_grad and self.channel == TRAIN

    @property
    def evaluates_unseen(self) -> bool:
        """Return whether the lookup may return initial rows for keys without a row."""
        return self.channel == EVAL and self.unseen is not Unseen.DEFAULT_ROW

    def closed(self, channel: int) -> "LookupRequest":
        """Return a copy of the request for a channel, with ``is_open`` set to False."""
        return dataclasses.replace(self, channel=channel, is_open=False)

    def in_graph(self) -> "LookupRequest":
        """Return a copy of the request. The default value of the copy is a tensor of shape [] or [dim].

        Raise ``ValueError`` if the default value has another shape.
        """
        if self.default_value is None:
            return self
        row = tf.convert_to_tensor(self.default_value, tf.float32)
        dim = self.table.shape.dim
        if row.shape.rank is None or row.shape.num_elements() not in (1, dim):
            raise TableLookupError("Table {!r}: the default value (default_value, serving_default_value) has the "
                                   "shape {}; expected a scalar or [{}]".format(self.table.table_name, row.shape, dim))
        return dataclasses.replace(
            self, default_value=tf.reshape(row, [] if row.shape.num_elements() == 1 else [dim]))
