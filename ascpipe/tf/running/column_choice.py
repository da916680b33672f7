"""Which feature columns of a program get tables, and of what size."""
from typing import NamedTuple, Optional


class TableSizes(NamedTuple):
    """Sizes of the table behind a column, as ``create_table`` has them.

    Attributes:
        device: ``device_vocabulary_size``; None: as many rows as the column has buckets.
        host: ``host_vocabulary_size``.
    """

    device: Optional[int] = None
    host: int = 0


class ColumnChoice(NamedTuple):
    """What ``use_for_feature_columns`` was given.

    Attributes:
        min_buckets: a column of TensorFlow with this many buckets or more gets a table.
        sizes: of these tables.
    """

    min_buckets: int
    sizes: TableSizes
