"""Operations on uint64 words. The results do not depend on whether the functions are compiled.

The plain-Python version is ``tests/reference/bits.py``.
"""
from typing import Any, Tuple

import numpy as np

from ascpipe.kernels.compiler import intrinsic, ir, is_off, types
from ascpipe.kernels.door import inner
from ascpipe.layout.structs import MAX_FRAMES

_ONE = np.uint64(1)

if is_off():

    def multiply_wrapping(a: np.uint64, b: np.uint64) -> np.uint64:
        """Return the lower 64 bits of a * b."""
        return np.uint64((int(a) * int(b)) & 0xFFFFFFFFFFFFFFFF)  # numpy's product warns of overflow

    def add_wrapping(a: np.uint64, b: np.uint64) -> np.uint64:
        """Return the lower 64 bits of a + b."""
        return np.uint64((int(a) + int(b)) & 0xFFFFFFFFFFFFFFFF)

    def lowest_bit(word: np.uint64) -> np.uint64:
        """Return the number (0 to 63) of the lowest bit that is set in ``word``. ``word`` must not be 0."""
        value = int(word)
        return np.uint64((value & -value).bit_length() - 1)

else:

    @intrinsic
    def _count_trailing_zeros(typing_context: Any, word: Any) -> Tuple[Any, Any]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))  # 1: word is never 0

        return types.uint64(types.uint64), generate

    @inner("uint64(uint64, uint64)")
    def multiply_wrapping(a: np.uint64, b: np.uint64) -> np.uint64:
        """Return the lower 64 bits of a * b."""
        return a * b

    @inner("uint64(uint64, uint64)")
    def add_wrapping(a: np.uint64, b: np.uint64) -> np.uint64:
        """Return the lower 64 bits of a + b."""
        return a + b

    @inner("uint64(uint64)")
    def lowest_bit(word: np.uint64) -> np.uint64:
        """Return the number (0 to 63) of the lowest bit that is set in ``word``. ``word`` must not be 0."""
        return _count_trailing_zeros(word)


@inner("uint64(int64)")
def frame_bit(number):
    """Return a uint64 in which only the bit of frame ``number`` is set. The masks of the window have one bit per frame.
    """
    return _ONE << np.uint64(number % MAX_FRAMES)
