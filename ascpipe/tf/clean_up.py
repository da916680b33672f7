"""Clean-up after errors. An error during the clean-up never replaces the original error."""
import contextlib
import logging
import os
import shutil
import tempfile
from typing import Callable, Iterator

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def cleaning_up(end: Callable[[], object], what: str) -> Iterator[None]:
    """Call ``end`` after the block. An error of ``end`` is logged as a warning if the block fails.

    Args:
        what: name of the object to clean up, for the warning.

    Raises:
        Exception: the error of the block, or the error of ``end`` if the block raises no error.
    """
    try:
        yield
    except BaseException:
        end_quietly(end, what)
        raise
    end()


def end_quietly(end: Callable[[], object], what: str) -> None:
    """Call ``end`` while another error is being raised. Log an error of ``end`` as a warning."""
    try:
        end()
    except Exception as error:  # noqa: BLE001  (any error, because the earlier error matters more)
        _log.warning("%s could not be cleaned up after an error: %s", what, error)


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[str]:
    """Create a directory for the block, and remove the directory afterwards. Log a warning if the removal fails.

    Raises:
        OSError: the directory cannot be created.
    """
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # the block may have removed the folder
        if os.path.lexists(folder):
            _log.warning("%s was not removed. Remove it", folder)
