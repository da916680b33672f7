"""Functions that lay out tables for a given width without cutting any text. They are pure.

A table that is too wide is *stacked*: the first cell of a row has a line of its own, and the other cells are on the
lines below it.
"""
from typing import List, NamedTuple, Sequence

_GAP = "  "
_INDENT = "  "  # indentation of the cells below the first cell


class Fitted(NamedTuple):
    """Lines of a table.

    Attributes:
        head: lines with the names of the columns.
        rows: lines of each row.
    """

    head: List[str]
    rows: List[List[str]]


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Fitted:
    """Lay out a table. The first column is aligned left, and other columns are aligned right.

    Args:
        columns: names of the columns.
        rows: cells, one per column.
        width: maximum length of a line in terminal cells, at least 1.

    Returns:
        Lines of at most ``width`` cells, without spaces at their ends.
    """
    widths = [max(map(_length, column)) for column in zip(columns, *rows)]
    if sum(widths) + len(_GAP) * (len(widths) - 1) <= width:
        return Fitted([_line(columns, widths)], [[_line(row, widths)] for row in rows])
    groups = _groups(widths, width - len(_INDENT))
    return Fitted(_stacked(columns, widths, groups, width), [_stacked(row, widths, groups, width) for row in rows])


def wrapped(text: str, width: int) -> List[str]:
    """Break text into lines of at most ``width`` terminal cells, at spaces if possible."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and _length(lines[-1]) + 1 + _length(word) <= width:
            lines[-1] += " " + word
            continue
        if lines[-1]:
            lines.append("")
        for character in word:
            if lines[-1] and _length(lines[-1]) + _length(character) > width:
                lines.append("")
            lines[-1] += character
    return lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [_pad(widths[0], cells[0], left=True), *map(_pad, widths[1:], cells[1:])]
    return _GAP.join(padded).rstrip()


def _pad(width: int, cell: str, *, left: bool = False) -> str:
    spaces = " " * (width - _length(cell))
    return cell + spaces if left else spaces + cell


def _groups(widths: Sequence[int], room: int) -> List[List[int]]:
    """Distribute all columns except column 0 among lines. Return the column numbers of each line."""
    groups: List[List[int]] = []
    for number in range(1, len(widths)):
        if groups and sum(widths[each] + len(_GAP) for each in groups[-1]) + widths[number] <= room:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups


def _stacked(cells: Sequence[str], widths: Sequence[int], groups: Sequence[Sequence[int]], width: int) -> List[str]:
    lines = wrapped(cells[0], width)
    for group in groups:
        line = _INDENT + _GAP.join(_pad(widths[number], cells[number]) for number in group)
        if _length(line) <= width:
            lines.append(line.rstrip())
        else:  # one cell that is wider than a line
            lines += wrapped(cells[group[0]], width)
    return lines


def _length(text: str) -> int:
    """Return the number of terminal cells that a text takes. Some characters, for example Chinese characters, take two
    cells.
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return int(cell_len(text))
