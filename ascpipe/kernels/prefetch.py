"""A hint to the processor: this element is wanted soon.  Changes no result.

With the JIT off it does nothing.
"""
from typing import Any, Tuple

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

if config.DISABLE_JIT:

    def prefetch(array: np.ndarray, index: int) -> None:
        """Bring the cache line of ``array[index]`` near; the index is neither checked nor wrapped."""

else:

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Tuple[Any, Any]:
        """Bring the cache line of ``array[index]`` near; the index is neither checked nor wrapped."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array_type = signature.args[0]
            view = make_array(array_type)(context, builder, arguments[0])
            element = cgutils.get_item_pointer(
                context, builder, array_type, view, [arguments[1]], wraparound=False, boundscheck=False
            )
            address = ir.IntType(8).as_pointer()
            flag = ir.IntType(32)
            hint = builder.module.declare_intrinsic(
                "llvm.prefetch", [address], ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
            )
            # 1: for writing as well; 3: keep in every cache level; 1: data, not code
            builder.call(hint, [builder.bitcast(element, address), flag(1), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(array, index), generate
