"""Options of the commands `run` and `plan` for programs with feature columns."""
import json
import os
from typing import Any, Callable, Dict, Mapping, Sequence

import click

_Command = Callable[..., Any]


def column_options(command: _Command) -> _Command:
    """Decorator that adds ``--columns``, and the options for tables of feature columns, to a command."""
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


def settings_of(columns: bool, options: Mapping[str, Any]) -> str:
    """Return the argument COLUMNS of ``program.py``: JSON, or an empty string without ``--columns``.

    Raises:
        click.UsageError: an option requires ``--columns``, which is missing, or ``--pretrained`` is invalid.
    """
    given = {name: value for name, value in options.items() if value not in (None, False, ())}
    if given and not columns:
        raise click.UsageError("--{} is for --columns".format(next(iter(given)).replace("_", "-")))
    if "pretrained" in given:
        given["pretrained"] = _paths(given["pretrained"])
    return json.dumps(given) if columns else ""


def _paths(given: Sequence[str]) -> Dict[str, str]:
    """Return the values of --pretrained as a dict from the name of a variable to an absolute path."""
    paths: Dict[str, str] = {}
    for value in given:
        variable, equals, path = value.partition("=")
        if not (variable and equals and path) or variable in paths:
            raise click.UsageError("--pretrained {}: {}".format(
                value, "the variable has files already" if variable in paths else "expected VARIABLE=PATH"))
        if not os.path.exists(path):
            raise click.UsageError("--pretrained {}: there is no file {}".format(value, path))
        paths[variable] = os.path.abspath(path)
    return paths
