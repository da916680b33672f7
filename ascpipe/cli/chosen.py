"""Functions that select the daemon to which a command applies."""
import contextlib
import os
from typing import Optional

import click

from ascpipe import names
from ascpipe.control.client import check_run_directory, running_daemons
from ascpipe.control.lock import is_held, is_listening
from ascpipe.errors import NotRunningError
from ascpipe.names import RunDir

name_option = click.option(
    "--name", default=None,
    help="Name of the daemon. Default: $ASCPIPE_NAME, otherwise 'default', otherwise the only running daemon.")


def is_named(name: Optional[str]) -> bool:
    """Return whether an option or $ASCPIPE_NAME specifies the name of a daemon."""
    return bool(name or os.environ.get(names.NAME_VARIABLE))


def chosen(name: Optional[str], *, or_the_only: bool = True) -> RunDir:
    """Return the run directory of the daemon named by ``name`` or $ASCPIPE_NAME. The default is ``default``.

    If no name is given and ``default`` is not running, the function selects the user's only daemon, for example the
    private daemon of a trainer, which has a random name. The name is printed on stderr.

    Args:
        name: name from the command line.
        or_the_only: whether to select the only daemon if no name is given.

    Raises:
        NotRunningError: the daemon is not running, and no daemon was selected. Running daemons are listed on stderr.
        NameRefusedError, EndpointTooLongError, RunDirError: the name or the run directory is invalid.
    """
    run = names.run_dir(names.daemon_name(name))
    with contextlib.suppress(NotRunningError):
        check_run_directory(run)
        if is_held(run) or is_listening(run.lifeline):
            return run
    running = running_daemons()
    if or_the_only and len(running) == 1 and not is_named(name):
        click.echo("ascpipe: daemon {!r}, the only one that runs".format(running[0]), err=True)
        return names.run_dir(running[0])
    if running:
        click.echo("ascpipe: running now: {} (ascpipe status --name ...)".format(", ".join(running)), err=True)
    raise NotRunningError(run.name, run.path)
