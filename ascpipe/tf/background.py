"""One save at a time goes on in a thread of its own, and somebody hears how it ended."""
import logging
import threading
from typing import Callable, Optional

from ascpipe.tf.configuration import Configuration

_log = logging.getLogger(__name__)

_SAY_S = 10.0  #: between two lines about whom we wait for


class Background:
    """The save that goes on in the background, or the last one.

    Used by one thread, that of the program. The thread of a save is no daemon: the interpreter ends after it.

    Attributes:
        was_used: whether there was a save in the background.
    """

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._prefix = ""
        self.was_used = False
        self._error: Optional[BaseException] = None

    def begin(self, prefix: str, work: Callable[[], None]) -> None:
        """Let ``work`` save a checkpoint; nothing else is under way."""
        self._prefix, self.was_used = prefix, True
        self._thread = threading.Thread(target=self._run, args=(work,), name="ascpipe-save")
        self._thread.start()

    def wait(self) -> None:
        """Wait until nothing is under way. Raises, once, what kept the last save from its end."""
        self.settle()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self) -> None:
        """Wait until nothing is under way; an error stays for ``wait``."""
        while self._thread is not None:
            self._thread.join(_SAY_S)
            if not self._thread.is_alive():
                self._thread = None
            else:
                _log.info("waiting for the save of %s in the background", self._prefix)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  (whatever it is, `wait` raises it)
            _log.error("not saved in the background: %s", error)
            self._error = error


def wait_for_save() -> None:
    """Wait until no save goes on in the background: the last one is durable and named.

    Raises:
        NotSavedError, NotPublishedError: it has failed; said once, here or by the next save or the end of the pipeline.
        tf.errors.OpError: likewise.
    """
    if Configuration.is_initialised() and Configuration.get_instance().pipeline is not None:
        Configuration.get_instance().running_pipeline().background.wait()
