"""The Criteo click format: one line a row, 40 columns separated by TAB, and what can be wrong with it.

Columns: the label (0 or 1), I1..I13 (an integer or nothing), C1..C26 (8 hexadecimal digits or nothing).
This file needs no TensorFlow, so that a bad file is refused before anything is started.
"""
import os
import re

DENSE_COUNT = 13  #: numeric columns
FIELD_COUNT = 26  #: categorical columns
COLUMN_COUNT = 1 + DENSE_COUNT + FIELD_COUNT

LABEL = "label"
DENSE = "dense"
FIELDS = tuple("C{}".format(number) for number in range(1, FIELD_COUNT + 1))

#: every tenth line is held out for evaluation; the others are trained
HELD_OUT_EVERY = 10

_LABEL = re.compile(rb"[01]")
_NUMBER = re.compile(rb"(-?[0-9]{1,18})?")
_HEX = re.compile(rb"([0-9a-fA-F]{8})?")


class BadFileError(ValueError):
    """A data file that cannot be used.

    Attributes:
        path: the file.
        line: number of the offending line, counted from 1; 0 when the file as a whole is meant.
        reason: what is wrong, in words.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(path, line, reason)

    def __str__(self) -> str:
        place = "{}: line {}".format(self.path, self.line) if self.line else self.path
        return "{}: {}".format(place, self.reason)


def held_out_rows(line_count: int) -> int:
    """How many of the first ``line_count`` lines are held out for evaluation."""
    return line_count // HELD_OUT_EVERY


def training_rows(line_count: int) -> int:
    """How many of them are trained."""
    return line_count - held_out_rows(line_count)


def count_lines(path: str) -> int:
    """Lines of a data file, after a check that each has the right number of columns.

    Reads the whole file once, in plain Python: about a third of a microsecond a line.

    Raises:
        BadFileError: the file is missing, unreadable, too short to hold rows out, or a line has another number of
            columns.
    """
    if not os.path.isfile(path):
        raise BadFileError(path, 0, "no such file" if not os.path.exists(path) else "not a regular file")
    number = 0
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.count(b"\t") != COLUMN_COUNT - 1:
                    raise BadFileError(path, number, _columns_text(line))
    except OSError as error:
        raise BadFileError(path, 0, "cannot be read: {}".format(error.strerror)) from error
    if number < HELD_OUT_EVERY:
        raise BadFileError(path, 0, "{} rows; at least {} are needed, since every {}th one is held out".format(
            number, HELD_OUT_EVERY, HELD_OUT_EVERY))
    return number


def explain(path: str) -> None:
    """Raise for the first line that the reader would refuse; return when there is none.

    Much slower than ``count_lines``, so it is called only after the reader has failed.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            values = line.rstrip(b"\r\n").split(b"\t")
            if len(values) != COLUMN_COUNT:
                raise BadFileError(path, number, _columns_text(line))
            for column, value in enumerate(values):
                _check_value(path, number, column, value)


def _check_value(path: str, line: int, column: int, value: bytes) -> None:
    if column == 0:
        name, pattern, wanted = LABEL, _LABEL, "0 or 1"
    elif column <= DENSE_COUNT:
        name, pattern, wanted = "I{}".format(column), _NUMBER, "an integer or nothing"
    else:
        name, pattern, wanted = FIELDS[column - DENSE_COUNT - 1], _HEX, "8 hexadecimal digits or nothing"
    if not pattern.fullmatch(value):
        raise BadFileError(path, line, "column {} ({}) is {!r}, want {}".format(
            column + 1, name, value.decode("utf-8", "replace"), wanted))


def _columns_text(line: bytes) -> str:
    return "{} columns, want {}: the label, I1..I{}, C1..C{}, separated by TAB".format(
        line.count(b"\t") + 1 if line.strip() else 0, COLUMN_COUNT, DENSE_COUNT, FIELD_COUNT)
