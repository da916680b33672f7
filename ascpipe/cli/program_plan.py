"""Plan of all tables of a program. The program runs until the pipeline would start, and then writes its table settings
to a file.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import click

from ascpipe import names
from ascpipe.cli import printing
from ascpipe.cli.plan import human, sizes
from ascpipe.cli.run import command_of, environment_of
from ascpipe.config import load_settings
from ascpipe.daemon.ring_sizes import ring_sizes
from ascpipe.errors import ProgramPlanError
from ascpipe.logs import counted
from ascpipe.shm import memory

_KILLED_S = 10.0  # maximum wait for the exit of a killed program
_SUMS = ("device_bytes", "host_bytes", "disk_bytes", "key_bytes", "memory_bytes")


class Machine(NamedTuple):
    """Free space of a machine.

    Attributes:
        memory_bytes: memory that can still be allocated under the lowest limit.
        memory_text: phrase about this limit.
        shm_bytes: free bytes of /dev/shm.
        disks: directory -> (number of its file system, free bytes).
    """

    memory_bytes: int
    memory_text: str
    shm_bytes: int
    disks: Mapping[str, Tuple[int, int]]


def show(program: str, args: Sequence[str], columns: str, ranks: int, timeout_s: float, *, as_json: bool) -> None:
    """Run a program. Print the sizes of the program's tables, and a warning if this machine has too little memory or
    disk space.

    Args:
        program: path of the program.
        args: arguments of the program.
        columns: settings of feature columns, as in ``program.py``.
        ranks: number of training processes on this machine.
        timeout_s: maximum time until the start of the pipeline.

    Raises:
        ProgramPlanError: the program did not reach the start of its pipeline.
    """
    told = told_by(program, args, columns, timeout_s)
    rings = ring_sizes(load_settings(), private=True, places=memory.Places())
    plan = planned(told, ranks, rings.ample or rings.first)
    plan["warnings"] = warnings_of(plan, machine(plan))
    if as_json:
        click.echo(json.dumps(plan, indent=2))
        return
    rows = [[table["name"], "{:,}".format(table["keys"]) if table["keys"] else "no limit", str(table["dim"]),
             str(table["row_bytes"]), *(human(table[field]) if table[field] else "-" for field in _SUMS[:4])]
            for table in plan["tables"]]
    title = "{} of {}{}".format(counted(len(rows), "table"), program, ", each of {} ranks".format(ranks)
                                if ranks > 1 else "")
    total = [["tables: rows of the trainer", human(plan["device_bytes"])],
             ["tables: rows in shared memory", human(plan["host_bytes"])],
             ["tables: keys, in the daemon", human(plan["key_bytes"])],
             [counted(plan["rings"], "ring") + ", in shared memory", human(plan["ring_bytes"])],
             ["shared memory in all", human(plan["shared_bytes"])],
             ["memory in all", human(plan["memory_bytes"])], ["disk", human(plan["disk_bytes"])]]
    if ranks > 1:
        total += [["shared memory of one rank", human(plan["shared_bytes"] / ranks)],
                  ["memory of one rank", human(plan["memory_bytes"] / ranks)]]
    printing.show([], [
        (title, ["table", "keys", "dim", "row bytes", "device", "host", "disk", "keys' bytes"], rows),
        ("this machine{}".format(", {} ranks".format(ranks) if ranks > 1 else ""), ["", "at most"], total)])
    for warning in plan["warnings"]:
        printing.show(["warning: " + warning], [])


def told_by(program: str, args: Sequence[str], columns: str, timeout_s: float) -> Dict[str, Any]:
    """Run a program until the pipeline would start. Return the content of the file that ``control.planned_program``
    writes.

    The output of the program goes to standard error.
    """
    with tempfile.TemporaryDirectory(prefix="ascpipe-plan-") as folder:
        path = os.path.join(folder, "tables.json")
        environment = {**environment_of(os.environ), names.PLAN_VARIABLE: path}
        process = subprocess.Popen(command_of(columns, program, args), env=environment, stdout=sys.stderr.fileno(),
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise ProgramPlanError(program, "it started no pipeline within {:g} s".format(timeout_s)) from None
        finally:
            _end(process)
        if not os.path.exists(path):
            raise ProgramPlanError(program, "it ended with exit code {} before it started a pipeline".format(code))
        with open(path, encoding="utf-8") as file:
            told: Dict[str, Any] = json.load(file)
    return told


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program if it is still running, and all processes that the program has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # the program and its children have ended
    process.wait(_KILLED_S)


def planned(told: Mapping[str, Any], ranks: int, ring_bytes: int) -> Dict[str, Any]:
    """Return the sizes of all tables, and the total sizes on this machine. The function is pure.

    Args:
        told: tables and number of rings of the program with one rank.
        ranks: number of ranks on this machine. Each rank has an equal share of the rows.
        ring_bytes: maximum size of a ring.

    Returns:
        A dict with these fields:

        - ``tables``: for each table, name, ``keys`` (0: no limit), ``dim``, ``directories``, and the ``plan.sizes`` of
          one rank's share
        - ``ranks``; ``rings`` and ``ring_bytes``: number and maximum total size of the rings of all ranks
        - ``shared_bytes``: the part of ``memory_bytes`` in /dev/shm
        - ``device_bytes``, ``host_bytes``, ``disk_bytes``, ``key_bytes``, ``memory_bytes``: totals of all ranks
    """
    tables: List[Dict[str, Any]] = []
    for table in told["tables"]:
        device = -(-table["device_rows"] // ranks)
        disk = -(-table["disk_rows"] // ranks)
        homes = -(-(table["home_rows"] - (table["device_rows"] if table["disk_rows"] else 0)) // ranks)
        if table["expands"]:  # rows are only on the host, and only memory limits their number
            device = homes = 0
        keys = disk or homes or device
        tables.append({"name": table["name"], "keys": keys, "dim": table["dim"],
                       "directories": list(table["directories"]),
                       **sizes(keys, 4 * table["row_floats"], device, homes, disk - homes if disk else 0)})
    rings = told["rings"] * ranks * (2 if ranks > 1 else 1)  # with several ranks, a stream also has a local ring
    sums = {name: ranks * sum(table[name] for table in tables) for name in _SUMS}
    sums["memory_bytes"] += rings * ring_bytes
    shared = sums["host_bytes"] + sums["key_bytes"] + rings * ring_bytes
    return {"ranks": ranks, "tables": tables, "rings": rings, "ring_bytes": rings * ring_bytes, "shared_bytes": shared,
            **sums}


def machine(plan: Mapping[str, Any]) -> Machine:
    """Return the free memory of this machine, and the free space on the disks of a plan."""
    places = memory.Places()
    rooms = [room for room in [memory.machine_room(places.meminfo), *memory.group_rooms(places)] if room is not None]
    least = min(rooms, key=lambda room: room.free_bytes, default=memory.Room(1 << 62, 1 << 62, "no limit is known"))
    disks = {}
    for table in plan["tables"]:
        for directory in table["directories"]:
            status = os.statvfs(directory)
            disks[directory] = os.stat(directory).st_dev, status.f_bavail * status.f_frsize
    return Machine(least.free_bytes, least.text, memory.shm_room(places.shm_dir).free_bytes, disks)


def warnings_of(plan: Mapping[str, Any], here: Machine) -> List[str]:
    """Return warnings: too little memory, /dev/shm or disk space for a plan, and tables without a size limit.

    The function is pure.
    """
    found = []
    if plan["memory_bytes"] > here.memory_bytes:
        found.append("full tables need {} of memory, but {}. Reduce host_vocabulary_size, or move rows to disk with "
                     "ssd_vocabulary_size".format(human(plan["memory_bytes"]), here.memory_text))
    shared = plan["shared_bytes"]
    if shared > here.shm_bytes:
        found.append("shared memory has {} free, and up to {} are shared. ascpipe uses memfds instead; to use shared "
                     "memory, enlarge {} (Docker: --shm-size)".format(
                         human(here.shm_bytes), human(shared), memory.Places().shm_dir))
    need: Dict[int, float] = {}
    for table in plan["tables"]:
        for directory in table["directories"]:
            device = here.disks[directory][0]
            need[device] = need.get(device, 0.0) + plan["ranks"] * table["disk_bytes"] / len(table["directories"])
    for device, count in need.items():
        directory, free = next((path, free) for path, (number, free) in here.disks.items() if number == device)
        if count > free:
            found.append("the disk of {} has {} free, but full tables need {} there. Reduce ssd_vocabulary_size, or "
                         "add a directory on another disk to ssd_data_path".format(
                             directory, human(free), human(count)))
    unlimited = [table["name"] for table in plan["tables"] if not table["keys"]]
    if unlimited:
        found.append("the plan does not contain {}: they grow without a limit. A key takes {} in memory".format(
            ", ".join(map(repr, unlimited)),
            human(max(table["row_bytes"] for table in plan["tables"] if not table["keys"]) + sizes(1, 0, 0, 0, 0)[
                "memory_bytes"])))
    return found
