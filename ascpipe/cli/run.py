"""Command ``ascpipe run``, which runs programs for Ascend servers on machines without Ascend cards."""
import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import click

from ascpipe import names
from ascpipe.cli.column_options import column_options, settings_of
from ascpipe.cli.hosts import GivenHosts, HostScript, RankCount, RankCountType
from ascpipe.cli.setting_options import config_option
from ascpipe.control import messages
from ascpipe.control.client import ask
from ascpipe.errors import RanksError
from ascpipe.errors.base import shown
from ascpipe.ranks import number_in, told

_HERE = os.path.dirname(os.path.abspath(__file__))
_STARTER = os.path.join(_HERE, "program.py")
_STANDINS = os.path.join(os.path.dirname(_HERE), "standins")

#: Launcher variables for a single rank.
_ONE_RANK = {
    "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "RANK_ID": "0", "RANK_SIZE": "1", "DEVICE_ID": "0", "ASCEND_DEVICE_ID": "0",
    "DEVICE_INDEX": "0", "JOB_ID": "10086",
}
_SIZE = "RANK_SIZE"  # run scripts of Ascend servers set this variable for their launchers


@click.command("run", context_settings={"allow_interspersed_args": False},
               help="Run the Python program SCRIPT. Stand-ins replace missing packages of an Ascend server.")
@click.option("--ranks", type=RankCountType(), default="1", show_default=True, metavar="N or MIN:MAX",
              help="Number of training processes. With MIN:MAX, ascpipe starts as many ranks as the hosts can run.")
@click.option("--hosts", default=None, metavar="HOST:N,...",
              help="Machines and their numbers of ranks. Default: this machine.")
@click.option("--hosts-script", type=click.Path(exists=True, dir_okay=False), default=None,
              help="Program that prints the available machines, one HOST:N per line. The program runs before each "
                   "start.")
@click.option("--mpi", is_flag=True, help="Use MPI and mpirun instead of gloo and horovodrun.")
@click.option("--restarts", type=click.IntRange(min=0), default=0, show_default=True,
              help="Maximum number of restarts of all ranks after a failure.")
@click.option("--daemon", "daemon", default=None, metavar="NAME",
              help="Running daemon to use. Each rank of a machine needs its own daemon, such as "
                   "'NAME-{local_rank}'.")
@click.option("--dashboard", is_flag=True,
              help="Serve a page that shows the training in a browser, and print its address.")
@column_options
@click.option("--take-over", is_flag=True,
              help="With --columns: continue from checkpoints that the program wrote without ascpipe.")
@click.option("--export-ops", type=click.Choice(["ascpipe", "stock"]), default=None,
              help="With --columns: ops of exported models. Servers of \"stock\" models need only TensorFlow.  "
                   "[default: ascpipe]")
@click.option("--pretrained", multiple=True, metavar="VARIABLE=PATH",
              help="With --columns: files with initial rows of the table that replaces a variable. Repeatable.")
@config_option
@click.argument("script", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(ranks: RankCount, hosts: Optional[str], hosts_script: Optional[str], mpi: bool, restarts: int,
            daemon: Optional[str], dashboard: bool, columns: bool, script: str, args: Tuple[str, ...],
            **of_columns: Any) -> None:
    """Run the program. With one rank, the program replaces this process, and so keeps the PID and the output of the
    command.
    """
    program = command_of(settings_of(columns, of_columns), script, args)
    if hosts is not None and hosts_script is not None:
        raise click.UsageError("--hosts and --hosts-script exclude each other")
    if dashboard and daemon is not None:
        raise click.UsageError("--dashboard is for the private daemon of the program. For daemon {0}, use `ascpipe "
                               "dashboard --name {0}`".format(daemon))
    asked = {"ASCPIPE_DASHBOARD": "1"} if dashboard else {}
    if ranks.most > 1:
        from ascpipe.cli.several_ranks import Ranks, say

        environment = {"JOB_ID": "10086", **os.environ, **asked}
        if daemon is not None:
            environment[names.NAME_VARIABLE] = daemon
        found: Union[GivenHosts, HostScript] = GivenHosts(hosts)
        if hosts_script is not None:
            found = HostScript(os.path.abspath(hosts_script), say)
        sys.exit(Ranks(program, ranks, found, mpi, environment.get(names.NAME_VARIABLE)).run(environment, restarts))
    for name, given in (("--hosts", hosts is not None), ("--hosts-script", hosts_script is not None), ("--mpi", mpi),
                        ("--restarts", restarts > 0)):
        if given:
            raise click.UsageError("{} needs --ranks 2 or more".format(name))
    environment = environment_of({**os.environ, **asked})
    if daemon is not None:
        run = names.run_dir(names.daemon_name(daemon))
        ask(run, messages.Status())  # fail before the program builds its graph
        environment["ASCPIPE_NAME"] = run.name
    os.execve(sys.executable, program, environment)  # noqa: S606


def command_of(columns: str, script: str, args: Sequence[str]) -> List[str]:
    """Return the command that runs a program with stand-ins. ``columns`` is the result of ``settings_of``."""
    return [sys.executable, _STARTER, _STANDINS, columns, script, *args]


def environment_of(given: Mapping[str, str]) -> Dict[str, str]:
    """Return ``given`` together with the environment variables of a rank. If no launcher has set the rank, the rank is
    0 and there is one rank.

    Raises:
        RanksError: a run script of an Ascend server requests several ranks without a launcher, or RANK_SIZE is invalid.
    """
    launched = told(given)
    size = number_in(given.get(_SIZE) or "1")
    if not launched and size is None:
        raise RanksError("{} is {}, which is not a number of ranks. Set it to digits, or unset it".format(
            _SIZE, shown(given[_SIZE])))
    if not launched and size is not None and size > 1:
        raise RanksError("{0} is {1}, but this is one process. Start the ranks with `ascpipe run --ranks {1}`, or "
                         "unset {0}".format(_SIZE, size))
    return {**_ONE_RANK, **given, **launched}
