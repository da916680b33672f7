"""Clean-up that never hides the error that it follows."""
import contextlib
import logging
import os
import shutil
import tempfile
from typing import Callable, Iterator

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def ended_by(end: Callable[[], object], what: str) -> Iterator[None]:
    """Call ``end`` after the block. Where the block fails, its error is raised, and one of ``end`` is a warning.

    Args:
        what: that is ended, for the warning.

    Raises:
        Exception: what the block raises; else what ``end`` raises.
    """
    try:
        yield
    except BaseException:
        end_quietly(end, what)
        raise
    end()


def end_quietly(end: Callable[[], object], what: str) -> None:
    """Call ``end`` while another error is raised; an error of ``end`` becomes a warning."""
    try:
        end()
    except Exception as error:  # noqa: BLE001  (any error: the one before it matters more)
        _log.warning("%s could not be cleaned up after an error: %s", what, error)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """Make a folder for the block, and remove it afterwards, or warn that it is left over.

    Yields:
        Its path.

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
