"""Check that there is enough memory to read a checkpoint."""
import contextlib
from typing import Iterator

from ascpipe.checkpoint.errors import NoMemoryToReadError
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory

SMALL_BYTES = 64 << 20  #: smaller amounts are not checked against the limits

_NO_THREAD = "can't start new thread"  #: message of Python's error if there is no memory for a thread's stack


@contextlib.contextmanager
def memory_for(prefix: str, what: str, need_bytes: int) -> Iterator[None]:
    """Context manager that checks the memory limits, and converts all memory errors in its block to the same error
    class.

    Args:
        prefix: prefix of the checkpoint.
        what: purpose of the memory, for the error message.
        need_bytes: peak memory of the block in bytes.

    Raises:
        NoMemoryToReadError: a limit is too low, or an allocation in the block failed.
    """
    try:
        if need_bytes >= SMALL_BYTES:
            memory.require(need_bytes, what)
        yield
    except (OutOfSharedMemoryError, MemoryError) as error:
        raise NoMemoryToReadError(prefix, what, need_bytes, memory.limits_text()) from error
    except RuntimeError as error:
        if str(error) != _NO_THREAD:
            raise
        raise NoMemoryToReadError(prefix, what, need_bytes, memory.limits_text()) from error
