"""Clean-up after errors. An error during the clean-up never replaces the original error."""
import contextlib
import functools
import logging
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Iterator

_log = logging.getLogger(__name__)


class _Block:
    """Context manager of ``interruptible``.

    Ctrl-C may raise ``KeyboardInterrupt`` in the methods of ``contextlib``, while the function waits at its ``yield``.
    The block is then neither entered nor left, and the traceback of the error keeps the function alive. Jupyter stores
    tracebacks, so the function would never clean up.

    Args:
        plain: result of a function that ``contextlib.contextmanager`` has decorated.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain

    def __enter__(self) -> Any:
        try:
            return self._plain.__enter__()
        except BaseException:
            self._plain.gen.close()
            raise

    def __exit__(self, *error: Any) -> Any:
        try:
            return self._plain.__exit__(*error)
        finally:
            self._plain.gen.close()  # has no effect if the function has ended


if TYPE_CHECKING:
    interruptible = contextlib.contextmanager
else:
    def interruptible(function: Callable[..., Iterator[Any]]) -> Callable[..., _Block]:
        """Decorate a function like ``contextlib.contextmanager``. The function cleans up after every interrupt."""
        begin = contextlib.contextmanager(function)

        @functools.wraps(function)
        def make(*args: Any, **kwargs: Any) -> _Block:
            return _Block(begin(*args, **kwargs))

        return make


@interruptible
def cleaning_up(end: Callable[[], object], what: str) -> Iterator[None]:
    """Call ``end`` after the block. An error of ``end`` is logged as a warning if the block fails.

    Args:
        end: function that may be called again, for example if Ctrl-C interrupts it. It then ends only what it has not
            ended before.
        what: name of the object to clean up, for the warning.

    Raises:
        Exception: the error of the block, or the error of ``end`` if the block raises no error.
    """
    try:
        try:
            yield
        except BaseException:
            end_quietly(end, what)
            raise
        end()
    except KeyboardInterrupt:
        end_quietly(end, what)
        raise


def end_quietly(end: Callable[[], object], what: str) -> None:
    """Call ``end`` while another error is being raised. Log an error of ``end`` as a warning."""
    try:
        end()
    except Exception as error:  # noqa: BLE001  (any error, because the earlier error matters more)
        _log.warning("%s could not be cleaned up after an error: %s", what, error)


@interruptible
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
