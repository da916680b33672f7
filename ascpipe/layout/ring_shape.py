"""Sizes and offsets of a ring segment and its frames."""
from typing import NamedTuple, Tuple

from ascpipe.layout.structs import FRAME, MAX_FRAMES, PAGE, PART, RING, RING_TABLE, SPEC, align

#: arrays of a part in the order of a frame, as (name of the offset field, bytes per id). Weights and counts
#: can share memory, because a table worker plans a part after its key worker has finished.
PART_ARRAYS = (
    ("ids", 8), ("unique", 8), ("restore", 4), ("occurrences", 4), ("entries", 4), ("slots", 4), ("counts", 8),
    ("frequencies", 4), ("move_in", 4), ("out_slots", 4), ("out_entries", 4), ("homes", 4), ("out_homes", 4),
)


def part_bytes(id_count: int, spec_count: int) -> int:
    """Return the size in bytes of the specs and arrays of one part, without the struct PART."""
    return spec_count * SPEC.itemsize + sum(align(size * id_count) for _, size in PART_ARRAYS)


def frame_bytes(parts: Tuple[Tuple[int, int], ...]) -> int:
    """Return the size of a frame in bytes. Each part is given as (id_count, spec_count)."""
    return len(parts) * PART.itemsize + sum(part_bytes(*part) for part in parts)


class RingShape(NamedTuple):
    """Offsets and size of a ring segment, in bytes."""

    frames_offset: int
    tables_offset: int
    arena_offset: int
    total_bytes: int


def ring_shape(table_count: int, arena_bytes: int) -> RingShape:
    """Return the offsets of a ring segment for ``table_count`` tables and an arena of ``arena_bytes``."""
    frames = align(RING.itemsize)
    tables = frames + MAX_FRAMES * FRAME.itemsize
    arena = align(tables + table_count * RING_TABLE.itemsize, PAGE)
    return RingShape(frames, tables, arena, align(arena + arena_bytes, PAGE))
