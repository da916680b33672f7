"""Command ``ascpipe stop``, which stops a daemon and waits until the daemon has exited."""
import time
from typing import Optional

import click

from ascpipe.cli.chosen import chosen
from ascpipe.control import messages
from ascpipe.control.client import ask
from ascpipe.control.lock import is_held
from ascpipe.control.proc_stat import read_stat
from ascpipe.errors import NoAnswerError

TIMEOUT_S = 30.0  # freeing large memory takes time
_PAUSE_S = 0.01


@click.command("stop", help="Stop a daemon and wait until it has exited. If it serves a trainer, the "
                            "training fails with E113.", short_help="Stop a daemon.")
@click.option("--name", default=None, help="Name of the daemon to stop. Default: $ASCPIPE_NAME, otherwise 'default'.")
def command(name: Optional[str]) -> None:
    """Stop the daemon. If it serves a trainer, the training fails with E113."""
    run = chosen(name, or_the_only=False)
    pid = ask(run, messages.Stop())["pid"]
    deadline = time.monotonic() + TIMEOUT_S
    while is_held(run) or _is_there(pid):
        if time.monotonic() > deadline:
            raise NoAnswerError(run.name, pid, "stop", TIMEOUT_S)
        time.sleep(_PAUSE_S)
    click.echo("ascpipe: daemon {!r} stopped".format(run.name))


def _is_there(pid: int) -> bool:
    """Return whether a process is alive. A zombie is not alive."""
    stat = read_stat(pid)
    return stat is not None and not stat.has_ended
