"""Errors of files of training data. C++ raises the same codes in ops (``ascpipe/layout/codes.py``)."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError


class DataError(AscpipeError):
    """Base class of errors of training data.

    Attributes:
        text: description of the error, and the recommended action.
    """

    code = "E339"


class DamagedRecordsError(DataError):
    """A record or a compressed stream is damaged or truncated. The message contains the file, record, byte offset
    and values."""

    code = "E330"


class DataChangedError(DataError):
    """Size or modification time of a file changed while it was read."""

    code = "E331"


class DataUnreadableError(DataError):
    """A file cannot be opened or read, or zlib is missing."""

    code = "E332"


class IndexUnusableError(DataError):
    """An index is damaged, or was built from other data. ``ascpipe.data.index`` rebuilds such an index."""

    code = "E333"


class BatchPlanError(DataError, ValueError):
    """Records cannot be divided into batches of this size, or a position is outside these records."""

    code = "E334"


class IndexNotWrittenError(DataError):
    """An index cannot be written. The data and an older index are unchanged."""

    code = "E335"


class NotAnExampleError(DataError, ValueError):
    """A record is not a tf.train.Example.

    Attributes:
        size: bytes of the record.
        reason: first deviation from the format.
    """

    code = "E336"
    fields: ClassVar[Tuple[str, ...]] = ("size", "reason")
    template = ("A record of {size} bytes is not a tf.train.Example: {reason}. Its checksum is right, so it was "
                "written in another format. Read it with the program that wrote it")


class TransformError(DataError, ValueError):
    """The function ``transform`` of ``asc.data.read`` raised an error, or returned something that is not allowed. The
    message contains the function, the batch and the reason.
    """

    code = "E338"


class ParquetMissingError(DataError):
    """The package pyarrow is not installed, so Parquet files cannot be read."""

    code = "E340"
    fields: ClassVar[Tuple[str, ...]] = ("path",)
    template = "{path} is a Parquet file, which needs pyarrow; install it with `pip install 'ascpipe[parquet]'`"
