"""Declares structs for calls from Python into our libraries that take many arguments.

C++ gets the same structs (``calls.gen.h``).  Pointers are valid during the call only.
"""
import ctypes


class TableArguments(ctypes.Structure):
    """A table, as ``asc_pipeline_add_table`` takes it."""

    _fields_ = (
        ("number", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("dim", ctypes.c_int64),
        ("device_rows", ctypes.c_int64),
        ("home_rows", ctypes.c_int64),
        ("row_floats", ctypes.c_int64),
        ("padding_count", ctypes.c_int64),
        ("padding_keys", ctypes.POINTER(ctypes.c_int64)),  # int64[padding_count]
        ("seed", ctypes.c_uint64),
        ("initial_kind", ctypes.c_int),  # of ascpipe/layout/initial_kinds.py
        ("a", ctypes.c_double),
        ("b", ctypes.c_double),
        ("scale", ctypes.c_double),
        ("averages", ctypes.c_int),  # 1 = its gradients are divided by the number of ranks
        ("fd", ctypes.c_int),  # of the segment; stays the caller's
        ("bytes", ctypes.c_int64),
        ("directories", ctypes.c_char_p),  # of its row files, for errors: "/a, /b"; null: no row goes to disk
    )


class DiskBatch(ctypes.Structure):
    """Rows to read or write of a row file, as ``asc_disk_submit`` takes them; the arrays stay until the batch is over.

    A result is 0, an errno, or what stands in the slot instead (``Damage`` of ``tfops/src/disk/row_format.h``).
    """

    _fields_ = (
        ("count", ctypes.c_int64),
        ("slots", ctypes.POINTER(ctypes.c_int64)),  # int64[count]: disk slots
        ("keys", ctypes.POINTER(ctypes.c_int64)),  # int64[count]
        ("generations", ctypes.POINTER(ctypes.c_uint32)),  # uint32[count]
        ("rows", ctypes.POINTER(ctypes.c_void_p)),  # address[count]: where each row goes to, or comes from
        ("alone", ctypes.POINTER(ctypes.c_uint8)),  # uint8[count]: 1 = no other row of its block is in use; or null
        ("results", ctypes.POINTER(ctypes.c_int32)),  # int32[count]: filled
        ("requests", ctypes.POINTER(ctypes.c_void_p)),  # address[count]: REQUEST that ends with each result; or null
        ("bell", ctypes.c_void_p),  # BELL that is rung when some of them have; or null
    )


class DiskFile(ctypes.Structure):
    """A row file, as ``asc_disk_describe`` fills it."""

    _fields_ = (
        ("fd", ctypes.c_int),  # stays the engine's
        ("is_direct", ctypes.c_int),  # 1 = past the page cache
        ("file_system", ctypes.c_int),  # FileSystemKind of tfops/src/disk/file_system.h
        ("file_system_name", ctypes.c_char_p),
        ("blocks", ctypes.c_int64),
        ("block_bytes", ctypes.c_int64),
        ("slots_per_block", ctypes.c_int64),
    )


class DiskFigures(ctypes.Structure):
    """What a device has done since its first file was opened, as ``asc_disk_figures`` fills it."""

    _fields_ = (
        ("queued", ctypes.c_int64),  # operations that no thread has begun
        ("under_way", ctypes.c_int64),
        ("deepest", ctypes.c_int64),  # most that were under way together
        ("delayed", ctypes.c_int64),  # operations that waited for another one of their block
        ("reads", ctypes.c_int64),
        ("writes", ctypes.c_int64),
        ("read_bytes", ctypes.c_int64),
        ("written_bytes", ctypes.c_int64),
        ("rows_read", ctypes.c_int64),
        ("rows_written", ctypes.c_int64),
        ("rows_failed", ctypes.c_int64),  # by an error of the disk
        ("rows_damaged", ctypes.c_int64),
        ("damaged_neighbours", ctypes.c_int64),  # torn slots in blocks that were read to be written
        ("read_p50_us", ctypes.c_int64),
        ("read_p99_us", ctypes.c_int64),
        ("write_p50_us", ctypes.c_int64),
        ("write_p99_us", ctypes.c_int64),
    )


STRUCTURES = (TableArguments, DiskBatch, DiskFile, DiskFigures)
