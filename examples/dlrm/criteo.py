"""Criteo click format, and checks of its files. A line is a row with 40 columns, separated by TAB.

The columns are the label (0 or 1), I1..I13 (an integer or empty), and C1..C26 (a hexadecimal number or empty). This
module does not need TensorFlow, so that an invalid file is rejected before any other work.
"""
import os
import re
from typing import BinaryIO, NamedTuple

DENSE_COUNT = 13  #: numeric columns
FIELD_COUNT = 26  #: categorical columns
COLUMN_COUNT = 1 + DENSE_COUNT + FIELD_COUNT

LABEL = "label"
DENSE = "dense"
FIELDS = tuple("C{}".format(number) for number in range(1, FIELD_COUNT + 1))

#: every tenth line is held out for evaluation; all other lines are trained
HELD_OUT_EVERY = 10

_LABEL = re.compile(rb"[01]")
_NUMBER = re.compile(rb"(-?[0-9]{1,18})?")
_HEX = re.compile(rb"([0-9a-fA-F]{1,15})?")


class BadFileError(ValueError):
    """A data file is invalid.

    Attributes:
        path: path of the file.
        line: number of the invalid line, starting at 1. 0 means the whole file.
        reason: description of the error.
    """

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(path, line, reason)

    def __str__(self) -> str:
        place = "{}: line {}".format(self.path, self.line) if self.line else self.path
        return "{}: {}".format(place, self.reason)


class Split(NamedTuple):
    """Two files of the rows of one file, and their numbers of rows."""

    training: str
    held_out: str
    training_rows: int
    held_out_rows: int


def split(path: str, folder: str) -> Split:
    """Copy the training rows and the held-out rows of a data file into two files in ``folder``.

    Each line must have the right number of columns.

    Raises:
        BadFileError: the file is missing or unreadable, has too few lines, or a line has a wrong number of columns.
    """
    if not os.path.isfile(path):
        raise BadFileError(path, 0, "no such file" if not os.path.exists(path) else "not a regular file")
    training, held_out = os.path.join(folder, "training.tsv"), os.path.join(folder, "held_out.tsv")
    try:
        with open(path, "rb") as lines, open(training, "wb") as trained, open(held_out, "wb") as others:
            rows = _copy(path, lines, trained, others)
    except OSError as error:
        raise BadFileError(path, 0, "cannot be read or copied: {}".format(error.strerror)) from error
    if rows < HELD_OUT_EVERY:
        raise BadFileError(path, 0, "{} rows; at least {} are needed, since every {}th one is held out".format(
            rows, HELD_OUT_EVERY, HELD_OUT_EVERY))
    return Split(training, held_out, rows - rows // HELD_OUT_EVERY, rows // HELD_OUT_EVERY)


def _copy(path: str, lines: BinaryIO, trained: BinaryIO, others: BinaryIO) -> int:
    number = 0
    for number, line in enumerate(lines, 1):
        if line.count(b"\t") != COLUMN_COUNT - 1:
            raise BadFileError(path, number, _columns_text(line))
        (trained if number % HELD_OUT_EVERY else others).write(line)
    return number


def explain(path: str) -> None:
    """Raise ``BadFileError`` for the first line that the reader would reject. Return if there is no such line.

    The function is much slower than ``split``, so it is called only after the reader has failed.
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
        name, pattern, wanted = FIELDS[column - DENSE_COUNT - 1], _HEX, "a hexadecimal number or nothing"
    if not pattern.fullmatch(value):
        raise BadFileError(path, line, "column {} ({}) is {!r}, want {}".format(
            column + 1, name, value.decode("utf-8", "replace"), wanted))


def _columns_text(line: bytes) -> str:
    return "{} columns, want {}: the label, I1..I{}, C1..C{}, separated by TAB".format(
        line.count(b"\t") + 1 if line.strip() else 0, COLUMN_COUNT, DENSE_COUNT, FIELD_COUNT)
