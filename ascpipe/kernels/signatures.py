"""Has the numba types of the structs and arrays that kernels take, by the names that stand in their signatures."""
import functools
from typing import Any, Dict

from ascpipe.kernels.compiler import from_dtype, types
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.kernels.records import (
    CHANGE,
    CLAIMS,
    EXTENT,
    IMAGE,
    LINE,
    LISTENER,
    ORDER,
    ROUNDS,
    ROW,
    TURN,
    Dedup,
    DiskRoom,
    Index,
    Record,
    Rules,
    Victims,
    View,
)
from ascpipe.kernels.tier_memory import STAMP, TIER
from ascpipe.layout import structs


@functools.lru_cache(maxsize=None)
def numba_types() -> Dict[str, Any]:
    """The names that stand in signatures of kernels."""
    found = {name: from_dtype(kind) for name, kind in (
        ("Ring", structs.RING), ("Frame", structs.FRAME), ("RingTable", structs.RING_TABLE), ("Part", structs.PART),
        ("Table", structs.TABLE), ("Entry", structs.ENTRY), ("Image", IMAGE), ("Line", LINE),
        ("Extent", EXTENT), ("Row", ROW), ("Change", CHANGE), ("Order", ORDER), ("Planner", PLANNER), ("Turn", TURN),
        ("Rounds", ROUNDS), ("Claims", CLAIMS), ("Listener", LISTENER), ("Tier", TIER), ("Rest", STAMP),
        ("DiskTable", structs.DISK_TABLE), ("Request", structs.REQUEST))}
    ints, longs = (types.Array(kind, 1, "C") for kind in (types.int32, types.int64))
    found["Index"] = types.NamedTuple((found["Extent"][::1], found["Line"][::1]), Index)
    found["View"] = types.NamedTuple((found["Row"][::1], found["Change"][::1], ints), View)
    found["Victims"] = types.NamedTuple((found["Order"][::1], ints, longs, longs), Victims)
    found["Rules"] = types.NamedUniTuple(types.int64, len(Rules._fields), Rules)
    found["Record"] = types.NamedTuple([longs if field == "counts" else ints for field in Record._fields], Record)
    found["Dedup"] = types.NamedTuple((longs, longs, ints, ints, ints), Dedup)
    found["DiskRoom"] = types.NamedTuple((types.Array(types.uint64, 1, "C"), ints, ints, ints, ints), DiskRoom)
    found["Spread"] = types.UniTuple(types.uint64, 3)
    return found
