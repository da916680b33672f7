"""Thread that writes background saves."""
import logging
import queue
import threading
import traceback
from typing import Callable, Optional

from ascpipe.tf.running.late_lines import LateLines

_log = logging.getLogger(__name__)

_LOG_INTERVAL_S = 10.0  #: seconds between two debug log lines of an idle thread


class SaveThread:
    """Thread that runs background saves one after the other. The caller must call ``close``.

    The methods are called by the program's thread. On ranks other than 0, the follower's thread begins the saves. All
    saves use the same thread, because malloc keeps freed memory in an arena of the thread, and a new thread might use
    another arena.

    Attributes:
        was_used: True after the first background save.
    """

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._saves: queue.Queue[Optional[Callable[[], None]]] = queue.Queue()
        self._is_over = threading.Event()
        self._is_over.set()
        self._prefix = ""
        self.was_used = False
        self._error: Optional[BaseException] = None
        self._lock = threading.Lock()
        self._under_way = 0  # number of saves that are queued or running

    def begin(self, prefix: str, work: Callable[[], None]) -> None:
        """Queue a save. ``work`` is called when the previous save has ended."""
        self._prefix = prefix
        self.was_used = True
        if self._thread is None or not self._thread.is_alive():
            # A daemon thread, because it waits for saves until the pipeline ends, at the latest when the process exits.
            self._thread = threading.Thread(target=self._serve, name="ascpipe-save", daemon=True)
            self._thread.start()
        with self._lock:
            self._under_way += 1
            self._is_over.clear()
        self._saves.put(work)

    def wait(self) -> None:
        """Wait until no save is running. Raise the error of the last save, but only once."""
        self.settle()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self) -> None:
        """Wait until no save is running. A later ``wait`` still raises the error of the save."""
        lines = LateLines()
        while not self._is_over.wait(lines.next_s()):
            if lines.is_due():
                _log.warning("waiting for the background save of %s for %.0f s", self._prefix,
                             lines.waited_s())

    def close(self) -> None:
        """Stop the thread after the last save. The method raises the same errors as ``wait``."""
        self.settle()
        if self._thread is not None:
            self._saves.put(None)
            lines = LateLines()
            self._thread.join(lines.next_s())
            while self._thread.is_alive():
                if lines.is_due():
                    _log.warning("waiting for the end of the save thread, after the save of %s", self._prefix)
                self._thread.join(lines.next_s())
            self._thread = None
        self.wait()

    def _serve(self) -> None:
        while self._run(self._next()):
            pass

    def _next(self) -> Optional[Callable[[], None]]:
        """Return the next save, or None if ``close`` was called."""
        while True:
            try:
                return self._saves.get(timeout=_LOG_INTERVAL_S)
            except queue.Empty:
                _log.debug("the save thread waits for the next save or the end of the pipeline; the last save was %s",
                           self._prefix)

    def _run(self, work: Optional[Callable[[], None]]) -> bool:
        """Run a save. Return False to stop the thread."""
        if work is None:
            return False
        try:
            work()
        except Exception as error:  # noqa: BLE001  (any error, which `wait` raises)
            _log.error("the background save failed: %s", error)
            _release_frames(error)
            self._error = error
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self._is_over.set()
        return True


def _release_frames(error: BaseException) -> None:
    """Release the local variables in an error's traceback, because they contain copies of entries."""
    said: Optional[BaseException] = error
    while said is not None:
        traceback.clear_frames(said.__traceback__)
        said = said.__cause__ or said.__context__
