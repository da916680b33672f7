"""Wait for a condition, never for a duration."""
import time
from typing import Callable, TypeVar

from tests.support import patience

Answer = TypeVar("Answer")

PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.025
LONGER = 1.1  #: a pause than the one before it: conditions that ask a daemon take its processor time


class NeverHappenedError(AssertionError):
    """What a test waited for did not become true."""


def wait_until(condition: Callable[[], Answer], timeout_s: float = 20.0, what: str = "") -> Answer:
    """Call ``condition`` until it answers something true, and return that.

    Args:
        condition: looks and answers at once; what it raises goes up.
        timeout_s: bounds how long a failing test takes on an idle machine; scaled on a busy one.
        what: said when it never happened; by default the source of the condition's name.

    Raises:
        NeverHappenedError: not true within ``timeout_s``.
    """
    began, pause_s = time.monotonic(), PAUSE_S
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() - began > timeout_s * patience.current():
            raise NeverHappenedError("not within {} s: {}".format(timeout_s, what or _name(condition)))
        time.sleep(pause_s)
        pause_s = min(LONGER * pause_s, LONGEST_PAUSE_S)


def _name(condition: Callable[[], object]) -> str:
    code = getattr(condition, "__code__", None)
    if code is None:
        return repr(condition)
    return "{} ({}:{})".format(condition.__name__, code.co_filename, code.co_firstlineno)
