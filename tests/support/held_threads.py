"""Blocks native threads of this process, such as the threads of TensorFlow's pools."""
import contextlib
import ctypes
import os
import signal
from typing import Any, Iterator, List, Set

from tests.support.waiting import wait_until

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.signal.restype = ctypes.c_void_p
_LIBC.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]

_LOOKS = 50  #: a thread must be asleep at this many checks in a row before it counts as idle

_handlers: List[Any] = []  #: never freed, since a thread may still be returning from its handler


def threads() -> Set[int]:
    """Return the ids of all threads of this process."""
    return {int(name) for name in os.listdir("/proc/self/task")}


def _sleeps(number: int) -> bool:
    with open("/proc/self/task/{}/stat".format(number)) as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


@contextlib.contextmanager
def held(numbers: Set[int]) -> Iterator[None]:
    """Keep some threads in a signal handler, so that they run no work until the block ends.

    The threads must be idle first: a blocked thread that holds a lock of Python or malloc would block the process.

    Args:
        numbers: ids of the threads.

    Raises:
        OSError: a thread does not exist any more.
    """
    entered: List[int] = []
    left: List[int] = []
    read_end, write_end = os.pipe()

    def stay(number: int) -> None:
        entered.append(number)
        os.read(read_end, 1)
        left.append(number)

    _handlers.append(ctypes.CFUNCTYPE(None, ctypes.c_int)(stay))
    before = _LIBC.signal(signal.SIGUSR1, ctypes.cast(_handlers[-1], ctypes.c_void_p))
    asked = 0
    for _ in range(_LOOKS):
        wait_until(lambda: all(map(_sleeps, numbers)), what="threads to have nothing to do")
    try:
        for number in numbers:
            if _LIBC.tgkill(os.getpid(), number, signal.SIGUSR1) != 0:
                raise OSError(ctypes.get_errno(), "thread {} cannot be held".format(number))
            asked += 1
        wait_until(lambda: len(entered) == asked, what="threads to be held")
        yield
    finally:
        os.write(write_end, b"x" * asked)
        wait_until(lambda: len(left) == asked, what="threads to go on")
        _LIBC.signal(signal.SIGUSR1, before)
        os.close(write_end)
        os.close(read_end)
