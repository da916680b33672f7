"""Log format of all processes: time, process role, level, text. One line per event."""
import logging
import sys
from typing import IO, Optional

FORMAT = "%(asctime)s.%(msecs)03d {role} %(process)d %(levelname)s %(message)s"


def one_line(text: str) -> str:
    """Escape non-printable characters, including line ends, in untrusted text for a log or a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, what: str) -> str:
    """Format a count, as in ``"1 table"``, ``"2 tables"``."""
    return "{} {}{}".format(number, what, "" if number == 1 else "s")


class _OneLine(logging.Formatter):
    """Writes one line per record: control characters are escaped, and traceback lines start with a space."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (name of the base class)
        return one_line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        return "\n".join("  " + line for line in super().formatException(ei).splitlines())  # type: ignore[arg-type]


def open_log(role: str, stream: Optional[IO[str]] = None) -> logging.Logger:
    """Return the logger of this process, which writes to ``stream`` (stderr). Call it once, in the process's main."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_OneLine(FORMAT.format(role=role.replace("%", "%%")), "%Y-%m-%dT%H:%M:%S"))
    logger = logging.getLogger("ascpipe." + role)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
