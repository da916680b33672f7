"""Lines and tables on a terminal, in a file or a pipe.  Texts may come from anywhere: nothing in them is obeyed."""
import sys
from typing import Any, Iterable, List, Sequence, Tuple

from ascpipe.logs import one_line

Table = Tuple[str, List[str], List[List[str]]]  #: (title, columns, rows of texts)

_WIDTH = 160  # of lines into a file or a pipe


def show(lines: Iterable[str], tables: Sequence[Table]) -> None:
    """Print lines, then tables."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)
    for line in lines:
        console.print(one_line(line), markup=False)
    for title, columns, rows in tables:
        console.print(_rich_table(title, columns, rows))


def _rich_table(title: str, columns: List[str], rows: List[List[str]]) -> Any:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*[Text(one_line(cell)) for cell in row])  # Text: a name may hold square brackets
    return table
