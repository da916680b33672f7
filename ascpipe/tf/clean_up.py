"""Clean-up that never stands in the place of the error that it follows."""
import contextlib
import logging
import os
import shutil
import tempfile
from typing import Callable, Iterator

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def ended_by(end: Callable[[], object], what: str) -> Iterator[None]:
    """Call ``end`` after what is inside; where that fails, its error goes up, and one of ``end`` is a warning.

    Args:
        what: that is ended, for the warning.

    Raises:
        Exception: what is inside raises; else what ``end`` raises.
    """
    try:
        yield
    except BaseException:
        end_quietly(end, what)
        raise
    end()


def end_quietly(end: Callable[[], object], what: str) -> None:
    """Call ``end`` while an error goes up that shall be heard; one of its own is a warning."""
    try:
        end()
    except Exception as error:  # noqa: BLE001  (whatever it is, the error before it has caused more)
        _log.warning("%s could not be cleaned up after an error: %s", what, error)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """A folder for what is inside, its path. It is gone afterwards, or a warning says that it is left.

    Raises:
        OSError: it cannot be made.
    """
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # it may be gone already
        if os.path.lexists(folder):
            _log.warning("%s is left over; remove it", folder)
