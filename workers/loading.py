"""Entry point that loads and runs a worker. The exit code reports compiled kernels that could not be read or written.

::

    python -m ascpipe.workers.loading KIND --channel FD --index I --generation G --title TEXT
    python -m ascpipe.workers.loading

Without arguments, the program loads all kinds of workers to fill the cache of compiled kernels, and exits.
"""
import errno
import importlib
import sys
import traceback
from typing import Iterator, Optional

from ascpipe.control.exec_worker import BROKEN_KERNELS, NO_ROOM_FOR_KERNELS

_MODULES = {kind: "ascpipe.workers.{}_worker".format(kind) for kind in ("key", "table", "disk")}
_READERS = ("numba.core.caching", "ascpipe.kernels.library")  # modules that read and write compiled kernels
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def main() -> None:
    """Load and run the requested kind of worker, or load all kinds."""
    kind = sys.argv.pop(1) if len(sys.argv) > 1 else None
    try:
        loaded = [importlib.import_module(_MODULES[name]) for name in ([kind] if kind else sorted(_MODULES))]
    except Exception as error:  # noqa: BLE001  (it is printed, and ends this process)
        traceback.print_exc()
        sys.exit(exit_code(error))
    if kind is not None:
        loaded[0].main()


def exit_code(error: BaseException) -> int:
    """Return the exit code of a worker that fails with ``error``.

    The code is NO_ROOM_FOR_KERNELS if compiled kernels could not be written. It is BROKEN_KERNELS for other
    errors of the modules that read and write kernels. It is 1 for all other errors.
    """
    if not any(name in _READERS for link in _chain(error) for name in _modules(link)):
        return 1
    cannot_write = any(isinstance(link, OSError) and link.errno in _CANNOT_WRITE for link in _chain(error))
    return NO_ROOM_FOR_KERNELS if cannot_write else BROKEN_KERNELS


def _chain(error: Optional[BaseException]) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _modules(error: BaseException) -> Iterator[str]:
    return (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))


if __name__ == "__main__":
    main()
