"""Functions that prefetch cache lines for writing. The functions change no results, and do nothing if kernels are not
compiled.
"""
from typing import Any, Tuple

import numpy as np

from ascpipe.kernels.compiler import cgutils, intrinsic, ir, is_off, make_array, types

if is_off():

    def prefetch(array: np.ndarray, index: int) -> None:
        """Prefetch the cache line of ``array[index]``. The index is not checked."""

    def prefetch_end(array: np.ndarray, index: int) -> None:
        """Prefetch the cache line that contains the last byte of ``array[index]``."""

else:

    def _hint(array: Any, index: Any, *, at_end: bool) -> Tuple[Any, Any]:
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
            pointer = builder.bitcast(element, address)
            if at_end:
                size = context.get_abi_sizeof(context.get_data_type(array_type.dtype))
                pointer = builder.gep(pointer, [ir.IntType(64)(size - 1)])
            # 1: also for writing; 3: keep in each cache level; 1: data, not code
            builder.call(hint, [pointer, flag(1), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(array, index), generate

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Tuple[Any, Any]:
        """Prefetch the cache line of ``array[index]``. The index is not checked."""
        return _hint(array, index, at_end=False)

    @intrinsic
    def prefetch_end(typing_context: Any, array: Any, index: Any) -> Tuple[Any, Any]:
        """Prefetch the cache line that contains the last byte of ``array[index]``."""
        return _hint(array, index, at_end=True)
