"""Log format of all processes. A log line contains the time, the role of the process, the level and the text. Each
event has one line.
"""
import logging
import sys
from typing import IO, Optional

FORMAT = "%(asctime)s.%(msecs)03d {role} %(process)d %(levelname)s %(message)s"


def one_line(text: str) -> str:
    """Escape non-printable characters, including line ends, in untrusted text for a log or a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, what: str) -> str:
    """Format a count, for example ``"1 table"`` or ``"2 tables"``."""
    return "{} {}{}".format(number, what, "" if number == 1 else "s")


class _OneLine(logging.Formatter):
    """Formatter that writes each record as one line and escapes control characters. Lines of a traceback start with
    spaces.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (name of the base class)
        return one_line(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        return "\n".join("  " + line for line in super().formatException(ei).splitlines())  # type: ignore[arg-type]


def open_log(role: str, stream: Optional[IO[str]] = None) -> logging.Logger:
    """Return the logger of this process, which writes to ``stream`` or stderr. Call the function once, in the
    main function.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(_OneLine(FORMAT.format(role=role.replace("%", "%%")), "%Y-%m-%dT%H:%M:%S"))
    logger = logging.getLogger("ascpipe." + role)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger
