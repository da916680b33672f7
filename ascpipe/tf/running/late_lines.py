"""Schedule of log lines about a long wait. The first line is due after 5 s, and the intervals between lines grow."""
import time

FIRST_S = 5.0  #: seconds until the first line
_LONGEST_S = 60.0  # maximum seconds between two lines


class LateLines:
    """Schedule of log lines about one wait. The wait begins when the object is created."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._next_s = self._pause_s = FIRST_S

    def waited_s(self) -> float:
        """Return the time since the wait began, in seconds."""
        return time.monotonic() - self._began

    def next_s(self) -> float:
        """Return the time until the next line is due, in seconds."""
        return max(0.0, self._next_s - self.waited_s())

    def is_due(self) -> bool:
        """Return whether a line is due now. If a line is due, schedule the next line."""
        waited = self.waited_s()
        if waited < self._next_s:
            return False
        self._next_s, self._pause_s = waited + self._pause_s, min(2 * self._pause_s, _LONGEST_S)
        return True
