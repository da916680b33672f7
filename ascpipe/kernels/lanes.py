"""Function that compares a key with all keys of a line of the key index in one operation.

The plain-Python version is ``tests/reference/lanes.py``.
"""
from typing import Any, Tuple

import numpy as np

from ascpipe.kernels.compiler import cgutils, intrinsic, ir, is_off, types
from ascpipe.kernels.records import LINE_KEYS

_LANES = 8  # lanes of 64 bits in a cache line; results of lanes without a key are ignored

if is_off():

    def match_keys(line: Any, key: int) -> np.uint64:
        """Return a word whose bit i is 1 if ``line["keys"][i] == key``. Bits from LINE_KEYS on are undefined."""
        return np.uint64(sum(1 << lane for lane in range(LINE_KEYS) if line["keys"][lane] == key))

else:

    @intrinsic
    def match_keys(typing_context: Any, line: Any, key: Any) -> Tuple[Any, Any]:
        """Return a word whose bit i is 1 if ``line["keys"][i] == key``. Bits from LINE_KEYS on are undefined."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            lanes = ir.VectorType(ir.IntType(64), _LANES)
            nothing = ir.Constant(lanes, ir.Undefined)
            loaded = builder.load(cgutils.get_record_member(builder, arguments[0], 0, lanes))
            loaded.align = 8  # numpy guarantees this alignment
            wanted = builder.insert_element(nothing, arguments[1], ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
            same = builder.icmp_signed("==", loaded, builder.shuffle_vector(wanted, nothing, everywhere))
            return builder.zext(builder.bitcast(same, ir.IntType(_LANES)), ir.IntType(64))

        return types.uint64(line, types.int64), generate
