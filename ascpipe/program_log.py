"""Logger of user programs, which writes to standard error. ``$MXREC_LOG_LEVEL`` sets the level of the logger."""
import logging
import os
import sys
from typing import Any

from ascpipe.errors import EnvironmentVariableError

NAME = "mx_rec"
LEVEL = "MXREC_LOG_LEVEL"  #: environment variable that contains the level

_LEVELS = ("DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL")


class _Screen(logging.StreamHandler):
    """Handler that writes to the current ``sys.stderr``, unless another handler of the program prints the same records.

    File handlers are not considered.
    """

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    @property
    def stream(self) -> Any:  # type: ignore[override]
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        logger = logging.getLogger(NAME)
        others = [*logger.handlers, *(logging.getLogger().handlers if logger.propagate else ())]
        if all(other is self or isinstance(other, (logging.FileHandler, logging.NullHandler)) for other in others):
            super().emit(record)


def program_logger() -> logging.Logger:
    """Return the logger ``mx_rec``. The first call of this function adds a handler that writes to standard error.

    The level is ``$MXREC_LOG_LEVEL`` or INFO, unless the program has set a level.

    Raises:
        ValueError: the variable is not DEBUG, INFO, WARNING, WARN, ERROR, CRITICAL or FATAL. Case is ignored.
    """
    logger = logging.getLogger(NAME)
    level = os.environ.get(LEVEL, "INFO")
    if level.upper() not in _LEVELS:
        raise EnvironmentVariableError("Environment variable {} has the value {!r}. Set it to one of {}".format(
            LEVEL, level, ", ".join(_LEVELS)))
    if logger.level == logging.NOTSET:
        logger.setLevel(level.upper())
    if not any(isinstance(handler, _Screen) for handler in logger.handlers):
        logger.addHandler(_Screen())
    return logger
