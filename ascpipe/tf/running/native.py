"""Interface of the native library: ops as Python functions, and the C functions of the running pipeline."""
import contextlib
import ctypes
import functools
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.contents import ReadPosition
from ascpipe.control.trainer_link import Piece
from ascpipe.errors import api_names
from ascpipe.layout import calls
from ascpipe.tf.clean_up import cleaning_up, interruptible
from ascpipe.tf.running import decoding
from ascpipe.tf.running.shapes import StreamShape, TableShape
from ascpipe.tfops import load

_ERROR_BYTES = 4096

_CODES = {
    kind(None, None, "").error_code: kind
    for kind in (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError, tf.errors.ResourceExhaustedError,
                 tf.errors.DataLossError, tf.errors.InternalError, tf.errors.CancelledError)
}


def ops() -> Any:
    """Return the module with one function per op.

    If the library is missing, an error is raised whose message explains how to build it.
    """
    module = load.load()
    _library()  # passes the API names for error messages to the library
    return module


def register_ops() -> None:
    """Load the native library, so that TensorFlow can import graphs with ascpipe ops.

    If the library is missing, this function does not raise an error. An error is raised later when an op is created.
    """
    with contextlib.suppress(load.OpsMissingError, load.OpsMismatchError, tf.errors.OpError):
        ops()


def begin_program() -> None:
    """If the native library is loaded, notify it of a call of ``init``.

    The call passes the API names that the library uses in error messages.
    """
    if _library.cache_info().currsize:
        _begin_program(_library())


class NativePipeline:
    """The native part of the running pipeline. A process has at most one pipeline.

    All methods raise errors of ``tf.errors``.

    Args:
        run: upper bits of every ticket. The daemon assigns the value.
        session_fd: descriptor of the session segment.
        lifeline_fd: socket whose end of file means that the daemon has exited.
        spin_us: maximum time that the waiter spins before it sleeps.
        wait_timeout_s: timeout of a wait.
    """

    def __init__(self, run: int, session_fd: int, lifeline_fd: int, spin_us: int, wait_timeout_s: float) -> None:
        call("asc_pipeline_new", run, session_fd, lifeline_fd, spin_us, wait_timeout_s)

    def add_table(self, table: TableShape, segment: Piece) -> None:
        """Map a table's segment.

        The pipeline may already be running. The table may replace a table that was never trained.

        The native library duplicates the descriptor of the segment.
        """
        fd, size = segment
        keys = (ctypes.c_int64 * len(table.padding_keys))(*table.padding_keys)
        call("asc_pipeline_add_table", calls.TableArguments(
            number=table.number, name=table.name.encode(), dim=table.dim, device_rows=table.device_rows,
            home_rows=table.home_rows, row_floats=table.row_floats, padding_count=len(keys), padding_keys=keys,
            averages=table.averages, seed=table.seed, initial_kind=table.kind, a=table.a, b=table.b, scale=table.scale,
            fd=fd, bytes=size, directories=", ".join(table.directories).encode() or None))
        if table.pool is not None:
            pool = np.ascontiguousarray(table.pool, np.float32)
            call("asc_pipeline_set_pool", table.number, pool.ctypes.data_as(_FLOATS), *pool.shape)

    def add_stream(self, stream: StreamShape, segment: Piece) -> None:
        """Map a stream's ring. The pipeline may already be running.

        The native library duplicates the descriptor of the segment.
        """
        tables = (ctypes.c_int * len(stream.tables))(*stream.tables)
        call("asc_pipeline_add_stream", stream.number, stream.channel, *segment, len(tables), tables,
             *_features(stream))

    def accumulate(self, table: int, steps: int) -> None:
        """Set the length of a table's cycles to ``steps`` batches, starting with the next batch.

        The last batch of a cycle needs the rows of all batches of the cycle.
        """
        call("asc_pipeline_accumulate", table, steps)

    def set_trained_batches(self, stream: int, batches: int) -> None:
        """Set the number of batches that a stream had trained when the restored checkpoint was saved.

        No step may train during the call.
        """
        call("asc_stream_began_after", stream, batches)

    def set_trained_position(self, stream: int, source: int, position: ReadPosition) -> None:
        """Set the dataset position that a stream has reached according to the restored checkpoint."""
        call("asc_stream_began_at", stream, source, position.pass_number, position.epoch, position.consumed)

    def read_from(self, source: int, position: ReadPosition) -> None:
        """Start the next iterator of a dataset at a position."""
        call("asc_read_starts_at", source, position.pass_number, position.epoch, position.consumed)

    def set_unapplied_keys(self, table: int, keys: np.ndarray) -> None:
        """Add distinct keys, int64[n], to the next cycle of a trained table.

        The last batch of the cycle then also needs the rows of these keys.
        """
        keys = np.ascontiguousarray(keys, np.int64)
        call("asc_stream_began_with", table, keys.ctypes.data_as(_INT64), len(keys))

    def set_ranks(self, rank: int, size: int, library: str, alike: Tuple[str, str], spans: Piece) -> None:
        """Enable the exchange of keys and rows with the other ranks.

        Call this method before any stream is added.

        Args:
            library: path of Horovod's library. The library must be loaded, and Horovod must be running.
            alike: two strings with one item per line. The first string contains properties that must be equal on all
                ranks. The second string contains Horovod's ops in the graph.
            spans: segment in which exchanges are recorded. The descriptor is -1 if there is no such segment.
        """
        call("asc_pipeline_set_ranks", rank, size, library.encode(), *(text.encode() for text in alike), *spans)

    def record_reading(self, rank: int, size: int, spans: Piece) -> None:
        """Write a span to a file for each batch that this process reads between ``start`` and ``stop``."""
        call("asc_pipeline_record_reading", rank, size, *spans)

    def add_local_stream(self, stream: StreamShape, ring: int, segment: Piece) -> None:
        """Map the local ring of a stream. ``ring`` is the number of the local ring. Call this method after
        ``add_stream``.
        """
        tables = (ctypes.c_int * len(stream.tables))(*stream.tables)
        call("asc_pipeline_add_local_stream", stream.number, ring, *segment, len(tables), tables)

    def share_stream(self, stream: StreamShape, known: int) -> None:
        """Connect the ops of ``stream`` to the ring of ``known``, a stream with the same channel and tables."""
        call("asc_pipeline_share_stream", stream.number, known, *_features(stream))

    def start(self) -> None:
        """Make the pipeline visible to the ops of the graph."""
        call("asc_pipeline_start")

    def stop(self) -> None:
        """Cancel all waits and unmap all segments. This method may be called repeatedly."""
        call("asc_pipeline_stop")

    def table_size(self, table: int) -> int:
        """Return the number of trained keys that have a row after the last trained step."""
        return number("asc_table_size", table)

    def table_capacity(self, table: int) -> int:
        """Return the maximum number of rows.

        For an expansion table, return the number of rows that are currently allocated.
        """
        return number("asc_table_capacity", table)

    def table_starts(self, table: int) -> int:
        """Return how many times an initializer of the table has run."""
        return number("asc_table_starts", table)


def _features(stream: StreamShape) -> Tuple[Any, ...]:
    return (len(stream.parts), (ctypes.c_int * len(stream.parts))(*stream.parts),
            (ctypes.c_char_p * len(stream.names))(*(name.encode() for name in stream.names)))


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C interface. If the function fails, raise the ``tf.errors`` class for the returned error
    code.
    """
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    code = getattr(_library(), name)(*arguments, text, _ERROR_BYTES)
    if code != 0:
        raise _CODES.get(code, tf.errors.InternalError)(None, None, text.value.decode("utf-8", "replace"))


def number(name: str, *arguments: Any) -> int:
    """Call a function, and return the int64 that the function writes to its last parameter.

    Do not pass this parameter in ``arguments``. Errors are the same as in ``call``.
    """
    result = ctypes.c_int64()
    call(name, *arguments, ctypes.byref(result))
    return result.value


@interruptible
def acquired(name: str, *arguments: Any, release: Callable[[Any], object], what: str) -> Iterator[int]:
    """Context manager that calls a function as ``number`` does, yields the number, and finally releases the object.

    The library writes the number when it creates the object, and resets it when it releases the object. ``call`` itself
    may be interrupted by Ctrl-C before or after that.

    Args:
        release: function that releases the object. Its argument is a reference to the number.
        what: name of the acquired object, for warnings.
    """
    result = ctypes.c_int64(_NOTHING)
    with cleaning_up(lambda: result.value == _NOTHING or release(ctypes.byref(result)), what):
        call(name, *arguments, ctypes.byref(result))
        yield result.value


_NOTHING = -1  # no number of an acquired object
_FLOATS = ctypes.POINTER(ctypes.c_float)
_INT32 = ctypes.POINTER(ctypes.c_int32)
_INT64 = ctypes.POINTER(ctypes.c_int64)
_ERROR: List[Any] = [ctypes.c_char_p, ctypes.c_int]
_ARGUMENTS: Dict[str, Sequence[Any]] = {
    "asc_pipeline_new": [ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_double],
    "asc_pipeline_add_table": [ctypes.POINTER(calls.TableArguments)],
    "asc_pipeline_set_pool": [ctypes.c_int, _FLOATS, ctypes.c_int64, ctypes.c_int64],
    "asc_pipeline_add_stream": [
        ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_char_p)],
    "asc_pipeline_accumulate": [ctypes.c_int, ctypes.c_int64],
    "asc_stream_began_after": [ctypes.c_int, ctypes.c_int64],
    "asc_stream_began_at": [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64],
    "asc_read_starts_at": [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64],
    "asc_read_decode_with": [ctypes.c_void_p],
    "asc_stream_position": [ctypes.c_int64, ctypes.c_int, _INT64],
    "asc_stream_began_with": [ctypes.c_int, _INT64, ctypes.c_int64],
    "asc_pipeline_set_ranks": [
        ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64],
    "asc_pipeline_record_reading": [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64],
    "asc_pipeline_add_local_stream": [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int,
                                      ctypes.POINTER(ctypes.c_int)],
    "asc_pipeline_share_stream": [ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int),
                                  ctypes.POINTER(ctypes.c_char_p)],
    "asc_ranks_ask": [ctypes.c_int, ctypes.c_char_p, _INT64],
    "asc_ranks_collect": [ctypes.c_int64, ctypes.c_char_p, ctypes.c_int],
    "asc_ranks_tell": [ctypes.c_int64, ctypes.c_char_p, ctypes.c_int],
    "asc_ranks_look": [ctypes.c_int, ctypes.c_int, _INT64, _INT64],
    "asc_ranks_asked": [ctypes.c_int, _INT64, _INT64, ctypes.c_char_p, ctypes.c_int],
    "asc_ranks_answer": [ctypes.c_int64, ctypes.c_char_p],
    "asc_ranks_resume": [ctypes.c_int64, ctypes.c_int],
    "asc_ranks_begin_work": [_INT64],
    "asc_ranks_end_work": [_INT64],
    "asc_ranks_leave": [ctypes.c_char_p],
    "asc_program_begin": [ctypes.c_char_p, ctypes.c_char_p],
    "asc_pipeline_start": [],
    "asc_pipeline_stop": [],
    "asc_table_size": [ctypes.c_int, _INT64],
    "asc_table_capacity": [ctypes.c_int, _INT64],
    "asc_table_starts": [ctypes.c_int, _INT64],
    "asc_instance_new": [_INT64],
    "asc_instance_bytes": [ctypes.c_int64, ctypes.c_int64, _INT64],
    "asc_instance_add": [ctypes.c_int64, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64,
                         ctypes.POINTER(_INT64), ctypes.POINTER(_FLOATS)],
    "asc_instance_index": [ctypes.c_int64, ctypes.c_int],
    "asc_instance_release": [_INT64],
    "asc_hold_take": [ctypes.c_int, _INT64],
    "asc_hold_release": [_INT64],
    "asc_table_memory": [ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), _INT64],
    "asc_table_state": [ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_FLOATS), _INT64, _INT64],
    "asc_table_give_slots": [ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int), _FLOATS],
    "asc_hold_cut": [ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.c_int64],
    "asc_table_freeze": [ctypes.c_int64, ctypes.c_int, ctypes.c_int],
    "asc_table_set_pool": [ctypes.c_int64, ctypes.c_int, _FLOATS, ctypes.c_int64, ctypes.c_int64],
    "asc_table_set_seed": [ctypes.c_int64, ctypes.c_int, ctypes.c_uint64],
    "asc_load_begin": [ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_int64],
    "asc_load_entries": [ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, _INT64, _INT64, _INT64,
                         ctypes.c_int],
    "asc_load_keyed": [ctypes.c_int64, ctypes.c_int],
    "asc_load_end": [ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64],
    "asc_save_begin": [ctypes.c_int64, ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int64, _INT64],
    "asc_save_device": [ctypes.c_int64, ctypes.c_int, ctypes.c_int, ctypes.POINTER(_FLOATS), _INT64],
    "asc_save_entries": [ctypes.c_int64, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64],
    "asc_save_want": [ctypes.c_int64, ctypes.c_int, _INT32, ctypes.c_int64],
    "asc_save_rows": [ctypes.c_int64, ctypes.c_int, _INT32, ctypes.c_int64, _FLOATS],
    "asc_save_end": [_INT64],
    "asc_stream_trained": [ctypes.c_int64, ctypes.c_int, _INT64],
}


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    library = load.library()
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes = [*arguments, *_ERROR]
        function.restype = ctypes.c_int
    decoding.register(library)
    _begin_program(library)
    return library


def _begin_program(library: ctypes.CDLL) -> None:
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    calls_in_errors = [api_names.in_names_of_program(call).encode() for call in ("asc.start()", "asc.shutdown()")]
    library.asc_program_begin(*calls_in_errors, text, _ERROR_BYTES)
