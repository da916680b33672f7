"""Command-line options for a settings file and for single settings."""
import os
from typing import Any, Callable, Dict, Optional, Sequence

import click

from ascpipe.config import FILE_VARIABLE

_Command = Callable[..., Any]

config_option = click.option(
    "--config", "config_file", type=click.Path(), default=None, metavar="FILE", expose_value=False, is_eager=True,
    callback=lambda context, option, value: take_file(value),
    help="Settings file, instead of $ASCPIPE_CONFIG.")


def setting_options(command: _Command) -> _Command:
    """Decorator that adds options to a command: ``--config``, ``--set``, and options for common settings such as
    ``--workers``.
    """
    for option in reversed((
            config_option,
            click.option("--workers", type=int, default=None, help="Number of key workers.  [default: 1]"),
            click.option("--table-workers", type=int, default=None, help="Number of table workers.  [default: 1]"),
            click.option("--ring-bytes", default=None,
                         help="Size of each stream's ring, such as 128MiB.  [default: 256MiB]"),
            click.option("--bind-cpu", default=None,
                         help="Processors for the workers, such as 2,4-7. Default: the kernel chooses."),
            click.option("--set", "others", multiple=True, metavar="NAME=VALUE",
                         help="Set any setting; repeatable. `ascpipe config show` lists the settings."))):
        command = option(command)
    return command


def given(others: Sequence[str], **options: Any) -> Dict[str, Any]:
    """Return the settings of the command line. A setting in ``others`` (from ``--set``) overrides an option such as
    ``--workers``.

    Raises:
        click.BadParameter: a string in ``others`` has no equals sign.
    """
    found = {name: value for name, value in options.items() if value is not None}
    for other in others:
        name, sign, value = other.partition("=")
        if not sign:
            raise click.BadParameter("{!r}: write NAME=VALUE".format(other), param_hint="--set")
        found[name.strip()] = value
    return found


def take_file(path: Optional[str]) -> None:
    """Set $ASCPIPE_CONFIG to the settings file ``path``, for this process and its child processes."""
    if path is not None:
        os.environ[FILE_VARIABLE] = os.path.abspath(path)
