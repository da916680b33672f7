"""Function that maps the names in kernel signatures to numba types."""
import functools
from typing import Any, Dict

from ascpipe.kernels import planner_memory, records, tier_memory
from ascpipe.kernels.compiler import from_dtype, types
from ascpipe.layout import structs

#: The name of a struct in a signature is in camel case, for example RingTable for RING_TABLE.
_STRUCTS = (
    (structs, "RING FRAME RING_TABLE PART TABLE ENTRY DISK_TABLE REQUEST"),
    (records, "IMAGE LINE EXTENT ROW CHANGE ORDER TURN ROUNDS CLAIMS LISTENER"),
    (planner_memory, "PLANNER"), (tier_memory, "TIER"),
)


@functools.lru_cache(maxsize=None)
def numba_types() -> Dict[str, Any]:
    """Return a dict from each name that signatures may contain to a numba type."""
    found = {name.title().replace("_", ""): from_dtype(getattr(module, name))
             for module, names in _STRUCTS for name in names.split()}
    ints, longs = (types.Array(kind, 1, "C") for kind in (types.int32, types.int64))
    columns = [longs if field == "counts" else ints for field in records.Record._fields]
    masks = types.Array(types.uint64, 1, "C")
    for group, kinds in (
            (records.Index, (found["Extent"][::1], found["Line"][::1])),
            (records.View, (found["Row"][::1], found["Change"][::1], ints)),
            (records.Victims, (found["Order"][::1], ints, longs, longs)), (records.Record, columns),
            (records.Dedup, (longs, longs, ints, ints, ints)), (records.DiskRoom, (masks, ints, ints, ints, ints))):
        found[group.__name__] = types.NamedTuple(kinds, group)
    found["Rules"] = types.NamedUniTuple(types.int64, len(records.Rules._fields), records.Rules)
    found["Spread"] = types.UniTuple(types.uint64, 3)
    return found
