"""Declares structs for calls from Python into the ops' library that take many arguments.

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
    )


STRUCTURES = (TableArguments,)
