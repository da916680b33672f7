"""What one lookup of a program asks for, in whichever API it was written."""
import dataclasses
from typing import Any, Optional, Union

import tensorflow as tf

from ascpipe.layout.words import EVAL, TRAIN
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.ids import Ids
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.graph.unseen_rows import Unseen
from ascpipe.tf.running.shapes import Thresholds


@dataclasses.dataclass(frozen=True)
class LookupRequest:
    """One lookup. The defaults are the defaults of ``mx_rec``.

    Attributes:
        table: the table.
        ids: a FeatureSpec, whose ids an insert function submits; or integers that are made from a batch.
        batch: with a FeatureSpec, what ``iterator.get_next()`` returned, or the features of it.
        channel: TRAIN or EVAL.
        is_open: a lookup of TRAIN becomes one of EVAL unless a gradient is asked for.
        is_grad: whether it trains the rows.
        default_value: float, scalar or [dim]: what a key without a row gives. None: zeros.
        unseen: whether such a key gives its initial row in evaluation.
        values_alone: of sparse ids, return rows of their values instead of their dense form.
        send_count: distinct keys of a batch at most. Needed with static shapes, else ignored.
        thresholds: of the table, as far as this lookup names them.
        name: of the returned tensor.
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
        """Whether rows may get a gradient. A lookup that is open trains, or is refused."""
        return self.is_grad and self.channel == TRAIN

    @property
    def evaluates_unseen(self) -> bool:
        """Whether keys without a row may give their initial rows."""
        return self.channel == EVAL and self.unseen is not Unseen.DEFAULT_ROW

    def closed(self, channel: int) -> "LookupRequest":
        """The same, once it is decided whether it trains."""
        return dataclasses.replace(self, channel=channel, is_open=False)

    def in_graph(self) -> "LookupRequest":
        """The same, with a tensor [] or [dim] as default value. Raises ``ValueError`` for another shape."""
        if self.default_value is None:
            return self
        row = tf.convert_to_tensor(self.default_value, tf.float32)
        dim = self.table.shape.dim
        if row.shape.rank is None or row.shape.num_elements() not in (1, dim):
            raise ValueError("table {!r}: the default value (default_value, serving_default_value) has the shape {}, "
                             "expected a scalar or [{}]".format(self.table.table_name, row.shape, dim))
        return dataclasses.replace(
            self, default_value=tf.reshape(row, [] if row.shape.num_elements() == 1 else [dim]))
