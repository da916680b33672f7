"""Functions that print lines and tables to a terminal, file or pipe. Markup and control characters have no effect."""
import os
import sys
from typing import Any, Iterable, List, Sequence, Tuple

from ascpipe.cli.fitting import fitted
from ascpipe.layout.ticket import SEQUENCE_BITS, sequence_of
from ascpipe.logs import one_line

Table = Tuple[str, List[str], List[List[str]]]  #: (title, column names, rows of cells)

_WIDTH = 160  # line width for files and pipes, unless COLUMNS is set
_WIDEST = 10_000


def show(lines: Iterable[str], tables: Sequence[Table]) -> None:
    """Print lines, followed by tables."""
    from rich.console import Console

    is_known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    console = Console(highlight=False, soft_wrap=True, width=None if is_known else _WIDTH)
    for line in lines:
        console.print(one_line(line), markup=False)
    for title, columns, rows in tables:
        _show_table(console, title, columns, rows)


def _show_table(console: Any, title: str, columns: List[str], rows: List[List[str]]) -> None:
    """Print a table. A table that is too wide for the console is stacked, so no text is cut."""
    from rich.measure import Measurement

    table = rich_table(title, columns, rows)
    if Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum <= console.width:
        console.print(table)
        return
    told = fitted(columns, [list(map(one_line, row)) for row in rows], console.width)
    for line in ["", *([title] if title else []), *told.head, *(line for row in told.rows for line in row)]:
        console.print(line, markup=False)


def ticket_text(ticket: int) -> str:
    """Format a ticket as ``"10685:117"`` (run 10685, batch 117). Ticket 0 is a dash."""
    return "{}:{}".format(ticket >> SEQUENCE_BITS, sequence_of(ticket)) if ticket else "-"


def duration(seconds: float) -> str:
    """Format a duration with the two largest units, for example ``"59 s"``, ``"3 min 20 s"`` or ``"3 d 4 h"``."""
    left = int(seconds)
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= size:
            return "{} {} {} {}".format(left // size, unit, left % size // smaller_size, smaller)
    return "{} s".format(left)


def rich_table(title: str, columns: List[str], rows: List[List[str]]) -> Any:
    """Build a table for a rich console. Markup in cells is ignored."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*[Text(one_line(cell)) for cell in row])  # Text has no markup; names may have square brackets
    return table
