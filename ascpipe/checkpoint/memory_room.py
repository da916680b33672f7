"""Memory to read a checkpoint with: if there is too little, the error has need and limits."""
import contextlib
from typing import Iterator

from ascpipe.checkpoint.errors import NoMemoryToReadError
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory

SMALL_BYTES = 64 << 20  #: what is taken without a look at the limits

_NO_THREAD = "can't start new thread"  #: what Python says where there is no memory for its stack


@contextlib.contextmanager
def memory_for(prefix: str, what: str, need_bytes: int) -> Iterator[None]:
    """Check the limits, and turn the lack of memory in the block into an error.

    Args:
        prefix: of the checkpoint.
        what: the use of the memory, for the text.
        need_bytes: that the block takes at a time.

    Raises:
        NoMemoryToReadError: names need and limits.
    """
    try:
        if need_bytes >= SMALL_BYTES:
            memory.require(need_bytes, what)
        yield
    except OutOfSharedMemoryError as error:
        raise NoMemoryToReadError(prefix, what, need_bytes, memory.limits_text()) from error
    except MemoryError as error:
        raise NoMemoryToReadError(prefix, what, need_bytes, memory.limits_text()) from error
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        raise NoMemoryToReadError(prefix, what, need_bytes, memory.limits_text()) from error
