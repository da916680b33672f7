"""Functions that find the files of training data and detect their formats."""
import glob
import os
import re
import zlib
from typing import List, NamedTuple, Optional, Sequence, Union

from ascpipe.data import formats
from ascpipe.data.formats import Format
from ascpipe.data.records import GZIP, PLAIN, ZLIB
from ascpipe.errors import DataFilesError, DataUnreadableError
from ascpipe.errors.base import shown

TFRECORD = "tfrecord"  #: formats
CSV = "csv"
TSV = "tsv"
PARQUET = "parquet"
INDEX_SUFFIX = ".ascindex"  #: suffix of index files, which patterns do not match

Path = Union[str, "os.PathLike[str]"]

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PATTERN = re.compile(r"[*?\[]")
_PARQUET_MAGIC = b"PAR1"
_HEADER_BYTES = 12  # a length and its checksum, at the start of a TFRecord file
_LOOK_BYTES = 4096
_NAMES = ((TFRECORD, re.compile(r"\.(tfrecords?|tfr|record)\b|\btfrecords?\b|^part-")), (CSV, re.compile(r"\.csv\b")),
          (TSV, re.compile(r"\.(tsv|tab)\b")), (PARQUET, re.compile(r"\.(parquet|pq)\b")))


class DataFile(NamedTuple):
    """A file of training data.

    Attributes:
        path: path of the file.
        format: ``TFRECORD``, ``CSV``, ``TSV`` or ``PARQUET``.
        compression: ``""``, ``"GZIP"`` or ``"ZLIB"``.
    """

    path: str
    format: str
    compression: str


def find(paths: Union[Path, Sequence[Path]]) -> List[str]:
    """Return the paths of the files that match the given paths and patterns.

    The files are in the order of the arguments. The files of a pattern (``*``, ``?``, ``[...]``, ``**``) are sorted by
    name; directories and index files among them are ignored. A file that is named twice is in the list twice.

    Args:
        paths: a path or pattern, or a sequence of them.

    Raises:
        DataFilesError: a path does not exist, is a directory or has a scheme, or a pattern matches no files.
    """
    given = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    if not isinstance(given, (list, tuple)) or not given:
        raise DataFilesError("The files of training data are {}. Nothing was read. Pass a path, a pattern such as "
                             "\"data/*.tfrecord\", or a list of paths".format(shown(paths)))
    found: List[str] = []
    for path in given:
        found += _files_of(path)
    return found


def _files_of(given: Path) -> List[str]:
    path = os.fspath(given) if isinstance(given, (str, os.PathLike)) else given
    if not isinstance(path, str) or not path or "\0" in path:
        raise DataFilesError("{} is not a path of training data. Nothing was read. Pass a string or a "
                             "pathlib.Path".format(shown(given)))
    if _REMOTE.match(path):
        raise DataFilesError("{} is a remote path, and ascpipe reads only local files. Nothing was read. Copy the "
                             "file to a local disk, or mount the file system and pass its path without "
                             "\"{}\"".format(path, _REMOTE.match(path).group()))  # type: ignore[union-attr]
    if os.path.isdir(path):
        raise DataFilesError("{} is a directory, not a file. Nothing was read. Pass a pattern of its files, for "
                             "example \"{}\"".format(path, os.path.join(path, "*.tfrecord")))
    if os.path.lexists(path):
        return [path]
    if not _PATTERN.search(path):
        raise DataFilesError("{} does not exist. Nothing was read. Check the path; the working directory is "
                             "{}".format(path, os.getcwd()))
    files = [one for one in sorted(glob.glob(path, recursive=True))
             if not one.endswith(INDEX_SUFFIX) and not os.path.isdir(one)]
    if not files:
        raise DataFilesError("The pattern {} matches no file. Nothing was read. Check the pattern; the working "
                             "directory is {}".format(path, os.getcwd()))
    return files


def recognized(path: str) -> DataFile:
    """Return the format and compression of a file, from its first bytes and its name.

    Raises:
        DataFilesError: the format is unknown.
        DataUnreadableError: the file cannot be read.
    """
    try:
        # A FIFO would block the open call. The reader rejects a FIFO with a reason.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_LOOK_BYTES)
    except OSError as error:
        raise DataUnreadableError("{} cannot be read: {}. Nothing was changed. Check the path and its "
                                  "permissions".format(path, error.strerror or error)) from error
    if _is_tfrecord(data):
        return DataFile(path, TFRECORD, PLAIN)
    compression = _compression(data)
    content = data if compression == PLAIN else _decompressed(data)
    return DataFile(path, _format(path, content), compression)


def by_name(path: str) -> Optional[str]:
    """Return the format that a file name implies, for example ``CSV`` for ``clicks.csv.gz``. Return None for other
    names.
    """
    name = os.path.basename(path).lower()
    return next((kind for kind, pattern in _NAMES if pattern.search(name)), None)


def record_format_of(kind: str, header: bool, use_quote_delim: bool = True) -> Format:
    """Return the ``Format`` for reading records from TFRecord, CSV or TSV files.

    Args:
        kind: ``TFRECORD``, ``CSV`` or ``TSV``. The other arguments apply only to text files.
        header, use_quote_delim: see ``formats.text``.
    """
    if kind == TFRECORD:
        return formats.TFRECORD
    return formats.text("\t" if kind == TSV else ",", use_quote_delim, header)


def readable(paths: Union[Path, Sequence[Path]]) -> List[DataFile]:
    """Return the files that match the given paths and patterns, with the format of each file.

    Raises:
        DataFilesError: an error of ``find`` or ``recognized``, or a Parquet file is compressed as a whole.
        DataUnreadableError: a file cannot be read.
    """
    found = [recognized(path) for path in find(paths)]
    for one in found:
        if one.format == PARQUET and one.compression != PLAIN:
            raise DataFilesError("{} is a Parquet file that is compressed ({}) as a whole, and cannot be read. Nothing "
                                 "was read. Decompress the file; the pages of a Parquet file may be compressed".format(
                                     one.path, one.compression))
    return found


def of_one_kind(paths: Union[Path, Sequence[Path]]) -> List[DataFile]:
    """Return the result of ``readable``, and check that all files are of one kind: TFRecord files, text files or
    Parquet files.

    Raises:
        DataFilesError, DataUnreadableError: see ``readable``.
    """
    found = readable(paths)
    for one in found:
        if _family(one.format) != _family(found[0].format):
            raise DataFilesError("{} is a {} file, and {} is a {} file. Nothing was read. Pass TFRecord, text and "
                                 "Parquet files in separate commands".format(
                                     found[0].path, found[0].format.upper(), one.path, one.format.upper()))
    return found


def _family(kind: str) -> str:
    return CSV if kind == TSV else kind


def _format(path: str, content: bytes) -> str:
    if content.startswith(_PARQUET_MAGIC):
        return PARQUET
    if _is_tfrecord(content):
        return TFRECORD
    named = by_name(path)
    if named is not None:
        return named
    if not content:
        return TFRECORD  # an empty file is a TFRecord file without records
    if b"\0" not in content and _is_text(content):
        return TSV if b"\t" in content.partition(b"\n")[0] else CSV
    raise DataFilesError("The format of {} is unknown: it begins with the bytes {}. Nothing was read. Supported "
                         "formats are TFRecord (plain, GZIP or ZLIB), CSV, TSV and Parquet".format(
                             path, content[:8].hex()))


def _is_text(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > 0 and error.reason == "unexpected end of data"  # the content was cut within a character
    return True


def _compression(data: bytes) -> str:
    if data[:2] == b"\x1f\x8b":
        return GZIP
    is_zlib = len(data) > 1 and data[0] & 15 == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0
    return ZLIB if is_zlib and _decompressed(data) else PLAIN


def _decompressed(data: bytes) -> bytes:
    """Return the first decompressed bytes, or no bytes if the compressed data is damaged."""
    try:
        return zlib.decompressobj(15 + 32).decompress(data, _LOOK_BYTES)
    except zlib.error:
        return b""


def _is_tfrecord(data: bytes) -> bool:
    """Return whether the data begins with a valid TFRecord header: a length and the checksum of the length."""
    if len(data) < _HEADER_BYTES:
        return False
    crc = 0xFFFFFFFF
    for byte in data[:8]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(data[8:12], "little")
