"""Errors in training data files. The C++ ops return the same error codes (``ascpipe/layout/codes.py``)."""
from typing import ClassVar, Tuple

from ascpipe.errors.base import AscpipeError


class DataError(AscpipeError):
    """Base class of errors of training data.

    Attributes:
        text: description of the error, and the recommended action.
    """

    code = "E339"


class DamagedRecordsError(DataError):
    """A record or a compressed stream is damaged or truncated. The message contains the file, the record and the byte
    offset.
    """

    code = "E330"


class DataChangedError(DataError):
    """The size or the modification time of a file changed while the file was read."""

    code = "E331"


class DataUnreadableError(DataError):
    """A file cannot be opened or read, or the file is compressed and zlib is missing."""

    code = "E332"


class IndexUnusableError(DataError):
    """An index is damaged, or was built from other data. ``ascpipe.data.index`` rebuilds such an index."""

    code = "E333"


class BatchPlanError(DataError, ValueError):
    """The records cannot be divided into batches of the given size, or a position is outside the records."""

    code = "E334"


class IndexNotWrittenError(DataError):
    """An index cannot be written. The data file and an existing index are unchanged."""

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
    """The function ``transform`` of ``asc.data.read`` raised an error or returned an invalid result. The message
    contains the function, the batch and the reason.
    """

    code = "E338"


class ParquetMissingError(DataError):
    """The package pyarrow is not installed, so Parquet files cannot be read."""

    code = "E340"
    fields: ClassVar[Tuple[str, ...]] = ("path",)
    template = "{path} is a Parquet file, which needs pyarrow; install it with `pip install 'ascpipe[parquet]'`"
