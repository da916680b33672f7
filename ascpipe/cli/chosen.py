"""Which daemon a command speaks to: the one that is named, else the only one there is."""
import contextlib
import os
from typing import Optional

import click

from ascpipe import names
from ascpipe.control.client import check_there, running_daemons
from ascpipe.control.lock import is_held, is_listening
from ascpipe.errors import NotRunningError
from ascpipe.names import RunDir

name_option = click.option(
    "--name", default=None, help="Name of the daemon. Default: $ASCPIPE_NAME, 'default', or the only daemon.")


def is_named(name: Optional[str]) -> bool:
    """Whether an option or the environment names a daemon."""
    return bool(name or os.environ.get(names.NAME_VARIABLE))


def chosen(name: Optional[str], *, or_the_only: bool = True) -> RunDir:
    """The run directory of the daemon that ``name`` or $ASCPIPE_NAME names, else of ``default``.

    Where neither names one and ``default`` does not run, it is the only daemon of this user, and a line on stderr says
    which: the name of a trainer's private daemon is made up.

    Args:
        name: as it was given.
        or_the_only: False: only one that is named, or ``default``.

    Raises:
        NotRunningError: there is none of that name, or there are several; a line on stderr lists those that run.
        NameRefusedError, EndpointTooLongError, RunDirError
    """
    run = names.run_dir(names.daemon_name(name))
    with contextlib.suppress(NotRunningError):
        check_there(run)
        if is_held(run) or is_listening(run.lifeline):
            return run
    running = running_daemons()
    if or_the_only and len(running) == 1 and not is_named(name):
        click.echo("ascpipe: daemon {!r}, the only one that runs".format(running[0]), err=True)
        return names.run_dir(running[0])
    if running:
        click.echo("ascpipe: running now: {} (ascpipe status --name ...)".format(", ".join(running)), err=True)
    raise NotRunningError(run.name, run.path)
