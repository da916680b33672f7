"""The rank of this process and the number of ranks, from the variables of the launcher.

Variables of Horovod are asked first, then those of Open MPI, of MPICH and Intel MPI (PMI), and of PMIx under Slurm. The
first launcher of which one is set is the one: a ``HOROVOD_SIZE`` of 1 counts, whatever another launcher has left
in the environment of the shell.

``ascpipe run --ranks`` names a folder in ``FOLDER_VARIABLE``, where ranks leave why they failed.
"""
import logging
import os
import re
import socket
import sys
import time
from typing import Dict, List, Mapping, NamedTuple, Optional

from ascpipe.errors import HorovodMissingError, HorovodVersionError, RanksError
from ascpipe.errors.base import shown

HOROVOD_VERSION = "0.28.1"  #: whose C++ functions we call
FOLDER_VARIABLE = "ASCPIPE_RANKS_FOLDER"

LOCAL_RANK = "{local_rank}"  #: in the name of a daemon: the number of the rank among those of its machine

_CAUSES = re.compile(r"rank-([0-9]+)\.causes")


class Launcher(NamedTuple):
    """The names of a launcher's variables.

    Attributes:
        rank, size: number of this process, and how many there are.
        local_rank, local_size: the same, of those on this machine.
    """

    rank: str
    size: str
    local_rank: str
    local_size: str


class Cause(NamedTuple):
    """Why a rank failed: ``when``, in seconds since the epoch, and a sentence of one line."""

    when: float
    rank: int
    text: str


HOROVOD = Launcher("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")
OPEN_MPI = Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                    "OMPI_COMM_WORLD_LOCAL_SIZE")
PMI = Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
PMIX = Launcher("PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
LAUNCHERS = (HOROVOD, OPEN_MPI, PMI, PMIX)


def launcher(environment: Optional[Mapping[str, str]] = None) -> Optional[Launcher]:
    """The launcher that has set the rank or the number of ranks; None without one. Slurm alone sets no rank."""
    environment = os.environ if environment is None else environment
    for known in LAUNCHERS:
        if known.rank in environment or (known is not PMIX and known.size in environment):
            return known
    return None


def launched() -> bool:
    """Whether a launcher has set the rank."""
    return launcher() is not None


def get_rank_id() -> int:
    """Return the rank of this process.

    Raises:
        RuntimeError: the process was not started by a launcher, so the variable is unset.
        ValueError: the variable is not a number.
    """
    return _number("rank")


def get_rank_size() -> int:
    """Return the number of ranks. Raises the same errors as ``get_rank_id``."""
    return _number("size")


def get_local_rank_size() -> int:
    """Return the number of ranks on this machine. Raises the same errors as ``get_rank_id``."""
    return _number("local_size")


def get_device_id() -> int:
    """Return the rank modulo the ranks on this machine. Raises the same errors as ``get_rank_id``."""
    return _number("rank") % max(1, _number("local_size"))


def daemon_of_this_rank(name: str) -> str:
    """The name of a daemon, with the number of this rank in place of ``LOCAL_RANK``.

    Raises:
        RuntimeError, ValueError: as ``get_rank_id`` does, where the name has ``LOCAL_RANK``.
    """
    return name.replace(LOCAL_RANK, str(_number("local_rank"))) if LOCAL_RANK in name else name


def told(environment: Mapping[str, str]) -> Dict[str, str]:
    """What a program that reads the variables of Open MPI or of Ascend servers is to find; empty without a launcher.

    Its rank and their number are this launcher's, whatever run scripts have set; numbers of devices are kept.
    """
    known = launcher(environment)
    if known is None:
        return {}
    values = {name: environment.get(variable) for name, variable in known._asdict().items()}
    wanted = {variable: values[name] for name, variable in OPEN_MPI._asdict().items()}
    wanted.update(RANK_ID=values["rank"], RANK_SIZE=values["size"])
    wanted.update((name, values["rank"]) for name in ("DEVICE_ID", "ASCEND_DEVICE_ID", "DEVICE_INDEX")
                  if name not in environment)
    return {variable: value for variable, value in wanted.items() if value is not None}


def check_horovod() -> None:
    """Only where there are several ranks: imports the part of Horovod that starts ranks, which joins nothing.

    Raises:
        HorovodMissingError, HorovodVersionError: it is not there, or is another version.
    """
    try:
        from horovod import __version__ as version
    except ImportError as error:
        raise HorovodMissingError(" ".join(str(error).split())) from error
    if version != HOROVOD_VERSION:
        raise HorovodVersionError(version, HOROVOD_VERSION)


def check_own_name() -> None:
    """Only where ranks are on several machines: Horovod listens where the name of this one leads.

    Raises:
        RanksError: it leads nowhere, or back to this machine alone.
    """
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise RanksError("this machine's name, {}, has no address ({}): other machines would not reach Horovod. Add a "
                         "line with the address that they use to /etc/hosts".format(name, error)) from error
    if address.startswith("127."):
        raise RanksError("this machine's name, {}, leads to {}: other machines would not reach Horovod, which listens "
                         "there. In /etc/hosts, give the name the address that they use".format(name, address))


def leave_cause(text: str) -> None:
    """Note why this rank fails, before it ends or is ended: ``ascpipe run --ranks`` prints it. Without it: nothing.

    Args:
        text: made one line.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not launched():
        return
    line = "{:.6f} {}\n".format(time.time(), " ".join(text.split()))
    try:
        with open(os.path.join(folder, "rank-{}.causes".format(get_rank_id())), "a", encoding="utf-8") as file:
            file.write(line)
    except OSError:
        pass  # a rank on another machine has no such folder: its words are on stderr


def cause_of(error: BaseException) -> str:
    """An error in one line: its type, and the first line of what it says."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return "{}: {}".format(type(error).__name__, first_line) if first_line else type(error).__name__


def cause_of_end() -> str:
    """At the exit of the process: the error that its program did not handle; "" if there was none."""
    error = getattr(sys, "last_value", None)
    return "" if error is None else cause_of(error)


def end_at_once(text: str, code: int) -> None:
    """End this process without its exit handlers: leave and print why, flush what was written. Never returns."""
    leave_cause(text)
    sys.stderr.write("ascpipe: {}\n".format(text))
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # closed, or its reader is gone
    os._exit(code)


def causes(folder: str) -> List[Cause]:
    """What ranks left in a folder, the first one first."""
    found = []
    for name in sorted(os.listdir(folder)):
        match = _CAUSES.fullmatch(name)
        if match is None:
            continue
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            for line in file:
                when, _, text = line.strip().partition(" ")
                if text and re.fullmatch(r"[0-9]+\.[0-9]+", when):  # else cut short by a kill
                    found.append(Cause(float(when), int(match.group(1)), text))
    return sorted(found)


def _number(what: str) -> int:
    known = launcher() or OPEN_MPI
    variable = getattr(known, what)
    text = os.environ.get(variable)
    if text is None:
        raise RuntimeError("environment variable {} is not set; start the program with `ascpipe run`, horovodrun or "
                           "mpirun, or set it (0 of 1 process: {}=0 {}=1 {}=1)".format(
                               variable, known.rank, known.size, known.local_size))
    number = number_in(text)
    if number is None:
        raise ValueError("environment variable {}={} is not a number of ranks: write digits".format(
            variable, shown(text)))
    return number


def number_in(text: str) -> Optional[int]:
    """The number that a variable has; None if it is not one of at most nine digits, which others read alike."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
