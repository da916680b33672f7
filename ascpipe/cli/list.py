"""Command ``ascpipe list``, which lists the running daemons of this user."""
import json
from typing import Any, Dict, List

import click

from ascpipe import names
from ascpipe.cli import printing
from ascpipe.control import messages
from ascpipe.control.client import ask, running_daemons
from ascpipe.control.lock import holder_of
from ascpipe.errors import DaemonError, MessageError, NotRunningError

_TIMEOUT_S = 2.0  # a daemon stopped by a signal must not block the list
_SILENT = "does not answer"
_COLUMNS = ["daemon", "state", "pid", "private", "trainer", "up"]


@click.command("list", help="List the daemons of this user.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """Print the state of each daemon."""
    found = daemons()
    if as_json:
        click.echo(json.dumps(found, indent=2))
    elif not found:
        printing.show(["no daemon of this user runs ({})".format(names.base_dir())], [])
    else:
        printing.show([], [("", _COLUMNS, [_row(one) for one in found])])


def daemons() -> List[Dict[str, Any]]:
    """Return one entry of the ``--json`` output for each running daemon. Values that the daemon did not report are
    None.
    """
    found = []
    for name in running_daemons():
        try:
            status = ask(names.run_dir(name), messages.Status(), _TIMEOUT_S)
        except NotRunningError:  # the daemon has just exited
            continue
        except (DaemonError, MessageError) as error:
            found.append({"name": name, "state": _SILENT, "pid": holder_of(names.run_dir(name)),
                          "private": names.is_private_name(name), "trainer": None, "uptime_s": None,
                          "problem": str(error)})
        else:
            trainer = status["trainer"]
            found.append({"name": name, "state": status["state"], "pid": status["pid"], "private": status["private"],
                          "trainer": None if trainer is None else trainer["pid"], "uptime_s": status["uptime_s"],
                          "problem": status["failure"]})
    return found


def _row(one: Dict[str, Any]) -> List[str]:
    return [one["name"], one["state"], _or_dash(one["pid"]), "yes" if one["private"] else "no",
            _or_dash(one["trainer"]), "-" if one["uptime_s"] is None else printing.duration(one["uptime_s"])]


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)
