"""Command-line options of programs with feature columns, for `run` and `plan`."""
import json
from typing import Any, Callable, Mapping, Optional

import click

_Command = Callable[..., Any]


def column_options(command: _Command) -> _Command:
    """Decorator that adds ``--columns`` and the options of its tables to a command."""
    for option in reversed((
            click.option("--columns", is_flag=True,
                         help="Replace large variables of TensorFlow's feature columns by tables."),
            click.option("--min-buckets", type=click.IntRange(min=1), default=None,
                         help="With --columns: a column needs this many buckets to get a table.  [default: 10000]"),
            click.option("--device-vocabulary-size", type=click.IntRange(1, 10 ** 9), default=None,
                         help="With --columns: device rows of each table. Default: the number of buckets."),
            click.option("--host-vocabulary-size", type=click.IntRange(0, 10 ** 9), default=None,
                         help="With --columns: host rows of each table that has fewer device rows than buckets."))):
        command = option(command)
    return command


def settings_of(columns: bool, options: Mapping[str, Optional[int]]) -> str:
    """Return the argument COLUMNS of ``program.py``: JSON, or an empty string without ``--columns``.

    Raises:
        click.UsageError: an option is for ``--columns``, which is not given.
    """
    sizes = {name: value for name, value in options.items() if value not in (None, False)}
    if sizes and not columns:
        raise click.UsageError("--{} is for --columns".format(next(iter(sizes)).replace("_", "-")))
    return json.dumps(sizes) if columns else ""
