"""File formats, which define how the content of a file is divided into records."""
from typing import NamedTuple

from ascpipe.layout.calls import RecordFormat

_TFRECORD = 0  # RecordKind of tfops/src/input/record_reader.h
_TEXT = 1
_PARQUET = 2


class Format(NamedTuple):
    """Format of records. The valid formats are ``TFRECORD``, ``PARQUET`` and the results of ``text``.

    Attributes:
        kind: number of the RecordKind of C++.
        delimiter: byte between two fields of a text record.
        use_quote_delim: whether a text field that begins with ``"`` may contain delimiters and line ends.
        header: whether the first record of a text file is skipped.
    """

    kind: int
    delimiter: int = 0
    use_quote_delim: bool = False
    header: bool = False

    @property
    def is_text(self) -> bool:
        """Return whether files of this format are text files."""
        return self.kind == _TEXT

    def argument(self) -> RecordFormat:
        """Return this format as a struct for calls of the C++ library."""
        return RecordFormat(self.kind, self.delimiter, int(self.use_quote_delim), int(self.header))


TFRECORD = Format(_TFRECORD)
PARQUET = Format(_PARQUET)


def text(field_delim: str = ",", use_quote_delim: bool = True, header: bool = False) -> Format:
    """Return the format of text files. Text is divided into the same records as by ``tf.data.experimental.CsvDataset``.

    Args:
        field_delim: delimiter of fields, a character of one byte.
        use_quote_delim: False if quotes are not interpreted, so each line is a record.
        header: whether the first record is skipped.
    """
    return Format(_TEXT, field_delim.encode("latin-1")[0], use_quote_delim, header)
