"""``ascpipe run``: runs a program for an Ascend server on a machine without a card."""
import os
import sys
from typing import Dict, Mapping, Optional, Tuple

import click

from ascpipe import names
from ascpipe.control import messages
from ascpipe.control.client import ask
from ascpipe.errors import NotBuiltYetError

_HERE = os.path.dirname(os.path.abspath(__file__))
_STARTER = os.path.join(_HERE, "program.py")
_STANDINS = os.path.join(os.path.dirname(_HERE), "standins")

#: What launchers of several ranks say, for one.
_ONE_RANK = {
    "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "RANK_ID": "0", "RANK_SIZE": "1", "DEVICE_ID": "0", "ASCEND_DEVICE_ID": "0",
    "DEVICE_INDEX": "0", "JOB_ID": "10086",
}
_SIZES = ("OMPI_COMM_WORLD_SIZE", "RANK_SIZE")


@click.command("run", context_settings={"allow_interspersed_args": False},
               help="Run a program as `python SCRIPT ARGS...` does, with stand-ins for those packages of an Ascend "
                    "server that are not installed.")
@click.option("--ranks", type=click.IntRange(min=1), default=1, show_default=True, help="How many processes train.")
@click.option("--daemon", "daemon", default=None, metavar="NAME", help="Daemon to use; it must run.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(ranks: int, daemon: Optional[str], script: str, args: Tuple[str, ...]) -> None:
    """The program takes the place of this process: its exit code, output and signals are its own."""
    environment = environment_of(os.environ, ranks)
    if daemon is not None:
        run = names.run_dir(names.daemon_name(daemon))
        ask(run, messages.Status())  # now, not after the program has built its graph
        environment["ASCPIPE_NAME"] = run.name
    os.execve(sys.executable, [sys.executable, _STARTER, _STANDINS, script, *args], environment)  # noqa: S606


def environment_of(given: Mapping[str, str], ranks: int) -> Dict[str, str]:
    """What the program finds in its environment: as given, and that it is the one rank where no launcher says so.

    Raises:
        NotBuiltYetError: there are several ranks, by the command line or by a launcher.
    """
    sizes = {"--ranks": str(ranks), **{variable: given[variable] for variable in _SIZES if variable in given}}
    for origin, size in sizes.items():
        if size.isdigit() and int(size) > 1:
            raise NotBuiltYetError("training with several ranks ({} is {})".format(origin, size), "start one process")
    return {**_ONE_RANK, **given}
