"""Index files, which contain the position of each record of a TFRecord or text file.

An index is stored in the directory of its data file, or in the cache directory if that directory is not writable.
An index is valid for one format, and for one size and modification time of the data file. If one of these differs or
the index is damaged, the index is built again.
"""
import ctypes
import hashlib
import os
from ctypes import c_int, c_int64, c_void_p
from typing import Callable, List, NamedTuple, Optional

from ascpipe.data import native
from ascpipe.data.files import INDEX_SUFFIX
from ascpipe.data.formats import TFRECORD, Format
from ascpipe.data.records import Place
from ascpipe.directories import cache_dir, make_safe_dir
from ascpipe.errors import DaemonError, DataUnreadableError, IndexNotWrittenError, IndexUnusableError

STEP_BYTES = 64 << 20  #: bytes of the data file between two calls of ``progress``

Progress = Callable[[int], None]  #: function that receives the number of bytes of the data file that were scanned


class RecordIndex:
    """An open index.

    Attributes:
        path: path of the index file.
        records: number of records.
    """

    def __init__(self, path: str, data: os.stat_result, record_format: Format = TFRECORD) -> None:
        """Open an index file, and check the whole file.

        Args:
            path: path of the index file.
            data: ``os.stat`` of the data file.
            record_format: the format of the data file.

        Raises:
            IndexUnusableError: the index is missing or damaged, or was built from other data.
        """
        self.path = path
        self._index = c_void_p()
        native.call("asc_data_index_open", os.fsencode(path), native.Stamp(data.st_size, data.st_mtime_ns),
                    record_format.argument(), ctypes.byref(self._index))
        self.records = int(native.library().asc_data_index_records(self._index))

    def __enter__(self) -> "RecordIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index. Further calls do nothing."""
        if self._index:
            native.library().asc_data_index_close(self._index)
            self._index = c_void_p()

    def find(self, first: int, count: int = 1) -> List[Place]:
        """Return the positions of ``count`` records, beginning with record ``first``.

        Raises:
            IndexUnusableError: the index has no such records, or was damaged since it was opened.
        """
        numbers = (c_int64 * (3 * max(count, 0)))()
        native.call("asc_data_index_find", self._index, first, count, numbers)
        return [Place(*numbers[3 * i:3 * i + 3]) for i in range(count)]


class Indexed(NamedTuple):
    """Result of ``indexed``.

    Attributes:
        opened: the open index. The caller closes it.
        is_new: whether the index was built by this call.
    """

    opened: RecordIndex
    is_new: bool


def beside(path: str) -> str:
    """Return the path of an index beside the data file. The index is a hidden file, so the pattern ``*`` does not match
    the index.
    """
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, "." + name + INDEX_SUFFIX)


def cache_folder() -> str:
    """Return the directory that stores an index if the directory of the data file is not writable."""
    return os.path.join(cache_dir(""), "indexes")


def in_cache(path: str) -> str:
    """Return the path of an index in the cache directory. The name depends on the real path of the data file."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    return os.path.join(cache_folder(), digest[:32] + INDEX_SUFFIX)


def existing(path: str, record_format: Format = TFRECORD) -> Optional[RecordIndex]:
    """Open the index of a data file. Return None if there is no index, or if the data file has changed since the index
    was built.

    Raises:
        DataUnreadableError: the data file cannot be found.
    """
    data = _stat(path)
    for place in (beside(path), in_cache(path)):
        try:
            return RecordIndex(place, data, record_format)
        except IndexUnusableError:
            continue
    return None


def indexed(path: str, progress: Optional[Progress] = None, record_format: Format = TFRECORD) -> Indexed:
    """Open the index of a data file. Build the index if necessary.

    Args:
        path: path of a file. A compressed file is decompressed to find its records.
        progress: called after every 64 MiB.
        record_format: the format of the file.

    Raises:
        IndexNotWrittenError: neither the directory of the file nor the cache directory can be written.
        DamagedRecordsError, DataChangedError, DataUnreadableError: the data file cannot be indexed.
    """
    found = existing(path, record_format)
    if found is not None:
        return Indexed(found, False)
    try:
        place = _build(path, beside(path), progress, record_format)
    except IndexNotWrittenError as error:
        place = _build(path, _cached_place(path, error), progress, record_format)
    return Indexed(RecordIndex(place, _stat(path), record_format), True)


def _cached_place(path: str, cause: IndexNotWrittenError) -> str:
    place = in_cache(path)
    try:
        make_safe_dir(os.path.dirname(place))
    except DaemonError as error:
        raise IndexNotWrittenError("{}. The cache directory cannot be used either: {}".format(
            cause.sentence(), error.sentence())) from error
    return place


def _build(path: str, place: str, progress: Optional[Progress], record_format: Format) -> str:
    writer = c_void_p()
    native.call("asc_data_index_begin", os.fsencode(path), record_format.argument(), os.fsencode(place),
                ctypes.byref(writer))
    try:
        position = c_int64()
        is_done = c_int()
        while not is_done.value:
            native.call("asc_data_index_step", writer, STEP_BYTES, ctypes.byref(position), ctypes.byref(is_done))
            if progress is not None:
                progress(position.value)
    finally:
        native.library().asc_data_index_end(writer)
    return place


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise DataUnreadableError("{} cannot be read: {}. Nothing was changed. Check the path and its "
                                  "permissions".format(path, error.strerror or error)) from error
