"""Eight numbers compared at once: those of one cache line.

The readable version is ``tests/reference/lanes.py``.
"""
from typing import Any, Tuple

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 8

if config.DISABLE_JIT:

    def match_lanes(array: np.ndarray, first: np.uint64, value: np.int64) -> np.uint64:
        """Bit i says whether ``array[first + i] == value``, for i of 0 to 7; all eight are read, unchecked."""
        same = array[int(first):int(first) + LANES] == value
        return np.uint64(sum(1 << lane for lane in range(LANES) if same[lane]))

else:

    @intrinsic
    def _compare(typing_context: Any, array: Any, first: Any, value: Any) -> Tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array_type = signature.args[0]
            view = make_array(array_type)(context, builder, arguments[0])
            element = cgutils.get_item_pointer(
                context, builder, array_type, view, [arguments[1]], wraparound=False, boundscheck=False
            )
            line = ir.VectorType(ir.IntType(64), LANES)
            nothing = ir.Constant(line, ir.Undefined)
            loaded = builder.load(builder.bitcast(element, line.as_pointer()))
            loaded.align = 8  # as numpy promises; a line of the index is a cache line
            wanted = builder.insert_element(nothing, arguments[2], ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            same = builder.icmp_signed("==", loaded, builder.shuffle_vector(wanted, nothing, everywhere))
            return builder.zext(builder.bitcast(same, ir.IntType(LANES)), ir.IntType(64))

        return types.uint64(array, first, value), generate

    @njit("uint64(int64[::1], uint64, int64)", cache=True, nogil=True)
    def match_lanes(array: np.ndarray, first: np.uint64, value: np.int64) -> np.uint64:
        """Bit i says whether ``array[first + i] == value``, for i of 0 to 7; all eight are read, unchecked."""
        return _compare(array, first, value)
