"""Check that there is enough memory to read a checkpoint."""
import contextlib
from typing import Iterator

from ascpipe.checkpoint.errors import NoMemoryToReadError
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.shm import memory

SMALL_BYTES = 64 << 20  #: smaller needs are not compared with the limits

_NO_THREAD = "can't start new thread"  #: text of Python's error if there is no memory for the stack of a thread


@contextlib.contextmanager
def memory_for(prefix: str, what: str, need_bytes: int) -> Iterator[None]:
    """Check the memory limits, then run the block and convert its memory errors.

    Args:
        prefix: of the checkpoint.
        what: the memory is needed for; appears in the error text.
        need_bytes: maximum memory that the block uses at a time, in bytes.

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
