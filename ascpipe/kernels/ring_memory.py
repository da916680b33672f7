"""Functions with which kernels access the structs and arrays of a ring segment. All functions are inlined.

``memory`` is the segment, as uint8[bytes].
"""
import numpy as np

from ascpipe.kernels.compiler import register_jitable
from ascpipe.kernels.memory import array_at
from ascpipe.kernels.records import Record
from ascpipe.layout.structs import FRAME, MAX_FRAMES, PART, RING, RING_TABLE


@register_jitable
def start_of(memory):
    """Return the address of a segment."""
    return np.int64(memory.ctypes.data)


@register_jitable
def ring_of(memory):
    """Return the RING struct of a ring segment."""
    return array_at(start_of(memory), 1, RING)[0]


@register_jitable
def frame_of(memory, number):
    """Return the FRAME struct of frame ``number``."""
    return array_at(start_of(memory) + ring_of(memory)["frames_offset"], MAX_FRAMES, FRAME)[number % MAX_FRAMES]


@register_jitable
def table_of(memory, column):
    """Return the RING_TABLE struct for the table in a column of the ring."""
    ring = ring_of(memory)
    return array_at(start_of(memory) + ring["tables_offset"], ring["table_count"], RING_TABLE)[column]


@register_jitable
def part_of(memory, frame, column):
    """Return a frame's PART struct for the table in a column of the ring."""
    return array_at(start_of(memory) + frame["offset"], ring_of(memory)["table_count"], PART)[column]


@register_jitable
def ints_of(memory, frame, offset, n):
    """Return the array int32[n] at byte ``offset`` of a frame."""
    return array_at(start_of(memory) + frame["offset"] + offset, n, np.int32)


@register_jitable
def longs_of(memory, frame, offset, n):
    """Return the array int64[n] at byte ``offset`` of a frame."""
    return array_at(start_of(memory) + frame["offset"] + offset, n, np.int64)


@register_jitable
def record_of(memory, frame, part, keys, moves, outs):
    """Return the record in a part. The record has ``keys`` keys, ``moves`` rows that move in and ``outs`` victims."""
    return Record(
        ints_of(memory, frame, part["entries"], keys), ints_of(memory, frame, part["slots"], keys),
        ints_of(memory, frame, part["homes"], keys), longs_of(memory, frame, part["counts"], keys),
        ints_of(memory, frame, part["frequencies"], keys), ints_of(memory, frame, part["move_in"], moves),
        ints_of(memory, frame, part["out_slots"], outs), ints_of(memory, frame, part["out_entries"], outs),
        ints_of(memory, frame, part["out_homes"], outs))


@register_jitable
def published_record(memory, frame, part):
    """Return the record in a part that has been written. The part contains the sizes of the record's arrays."""
    return record_of(memory, frame, part, part["held"], part["fresh_count"] + part["load_count"], part["out_count"])
