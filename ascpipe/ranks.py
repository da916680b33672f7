"""Functions that read the rank of this process and the number of ranks from the launcher's environment variables.

The variables of these launchers are read, in this order of preference: Horovod, Open MPI, MPICH and Intel MPI (PMI),
PMIx under Slurm. The first launcher with a variable in the environment is used, even if ``HOROVOD_SIZE`` is 1 and the
shell contains variables of another launcher.

``ascpipe run --ranks`` sets ``FOLDER_VARIABLE`` to a folder. Ranks record causes of failures and the end of their first
batch in this folder.
"""
import contextlib
import logging
import os
import re
import socket
import sys
import time
from typing import Dict, List, Mapping, NamedTuple, Optional

from ascpipe.errors import EnvironmentVariableError, HorovodMissingError, HorovodVersionError, RanksError
from ascpipe.errors.base import shown

HOROVOD_VERSION = "0.28.1"  #: the only supported version, since ascpipe calls C++ functions of Horovod
FOLDER_VARIABLE = "ASCPIPE_RANKS_FOLDER"

LOCAL_RANK = "{local_rank}"  #: part of a daemon name that is replaced by the local rank

_FIRST_BATCH = "first-batch"  # file in that folder
_CAUSES = re.compile(r"rank-([0-9]+)\.causes")


class Launcher(NamedTuple):
    """Names of a launcher's environment variables.

    Attributes:
        rank, size: number of this process, and number of processes.
        local_rank, local_size: the same numbers for this machine.
    """

    rank: str
    size: str
    local_rank: str
    local_size: str


class Cause(NamedTuple):
    """Cause of a rank's failure: time in seconds since the epoch, number of the rank, and a one-line description."""

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
    """Return the launcher that has set the rank or the number of ranks, or None if there is no such launcher.

    Slurm alone does not set the rank.
    """
    environment = os.environ if environment is None else environment
    for known in LAUNCHERS:
        if known.rank in environment or (known is not PMIX and known.size in environment):
            return known
    return None


def launched() -> bool:
    """Return whether a launcher has set the rank or the number of ranks."""
    return launcher() is not None


def get_rank_id() -> int:
    """Return the rank of this process.

    Raises:
        RuntimeError: the process was not started by a launcher, so the variable is unset.
        ValueError: the variable is not a number.
    """
    return _number("rank")


def get_rank_size() -> int:
    """Return the number of ranks.

    Raise the same errors as ``get_rank_id``.
    """
    return _number("size")


def get_local_rank_size() -> int:
    """Return the number of ranks on this machine.

    Raise the same errors as ``get_rank_id``.
    """
    return _number("local_size")


def get_device_id() -> int:
    """Return the rank modulo the number of ranks on this machine.

    Raise the same errors as ``get_rank_id``.
    """
    return _number("rank") % max(1, _number("local_size"))


def daemon_of_this_rank(name: str) -> str:
    """Return a daemon name with ``LOCAL_RANK`` replaced by the local rank.

    Raises:
        RuntimeError, ValueError: see ``get_rank_id``. They are raised only if the name contains ``LOCAL_RANK``.
    """
    return name.replace(LOCAL_RANK, str(_number("local_rank"))) if LOCAL_RANK in name else name


def told(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment variables that Open MPI and Ascend servers would set for this rank. Return an empty dict
    if there is no launcher.

    The launcher's rank and number of ranks override variables of run scripts. Existing device numbers are kept.
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
    """Check that Horovod can be imported and has the supported version. The check does not start Horovod.

    Raises:
        HorovodMissingError, HorovodVersionError: Horovod is missing or has another version.
    """
    try:
        from horovod import __version__ as version
    except ImportError as error:
        raise HorovodMissingError(" ".join(str(error).split())) from error
    if version != HOROVOD_VERSION:
        raise HorovodVersionError(version, HOROVOD_VERSION)


def check_own_name() -> None:
    """Check that this machine's host name resolves to an address that other machines can reach. Horovod listens on this
    address.

    Raises:
        RanksError: the host name does not resolve, or resolves to a loopback address.
    """
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise RanksError("the name of this machine, {}, has no address ({}), so other machines cannot reach Horovod. "
                         "Add a line with the address that they use to /etc/hosts".format(name, error)) from error
    if address.startswith("127."):
        raise RanksError("the name of this machine, {}, resolves to {}, so other machines cannot reach Horovod, "
                         "which listens there. In /etc/hosts, map the name to the address that other machines "
                         "use".format(name, address))


def leave_cause(text: str) -> None:
    """Record the cause of this rank's failure before it exits. Do nothing if ``ascpipe run --ranks`` did not start this
    rank.

    Args:
        text: cause of the failure. It is converted to one line.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder or not launched():
        return
    line = "{:.6f} {}\n".format(time.time(), " ".join(text.split()))
    try:
        with open(os.path.join(folder, "rank-{}.causes".format(get_rank_id())), "a", encoding="utf-8") as file:
            file.write(line)
    except OSError:
        pass  # another machine does not have the folder; the cause is on the stderr of the rank


def leave_first_batch() -> None:
    """Record that this rank has finished its first batch. Do nothing if ``ascpipe run --ranks`` did not start this rank
    on its own machine.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder and launched():
        with contextlib.suppress(OSError):  # another machine does not have the folder
            open(os.path.join(folder, _FIRST_BATCH), "a").close()


def has_first_batch(folder: str) -> bool:
    """Return whether a rank has recorded the end of its first batch in ``folder``."""
    return os.path.exists(os.path.join(folder, _FIRST_BATCH))


def cause_of(error: BaseException) -> str:
    """Format an error as one line with its type and the first line of its message."""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return "{}: {}".format(type(error).__name__, first_line) if first_line else type(error).__name__


def cause_of_end() -> str:
    """Return a line that describes the unhandled error of the program, or an empty string if there is no such error. An
    exit handler calls this function.
    """
    error = getattr(sys, "last_value", None)
    return "" if error is None else cause_of(error)


def end_at_once(text: str, code: int) -> None:
    """Exit without calling exit handlers. Before the exit, record and print the cause of the failure, and flush stdout
    and stderr. The function does not return.
    """
    leave_cause(text)
    sys.stderr.write("ascpipe: {}\n".format(text))
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass  # the stream is closed or has no reader
    os._exit(code)


def causes(folder: str) -> List[Cause]:
    """Return the causes of failures that ranks recorded in a folder, oldest first."""
    found = []
    for name in sorted(os.listdir(folder)):
        match = _CAUSES.fullmatch(name)
        if match is None:
            continue
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            for line in file:
                when, _, text = line.strip().partition(" ")
                if text and re.fullmatch(r"[0-9]+\.[0-9]+", when):  # otherwise, a kill has truncated the line
                    found.append(Cause(float(when), int(match.group(1)), text))
    return sorted(found)


def _number(what: str) -> int:
    known = launcher() or OPEN_MPI
    variable = getattr(known, what)
    text = os.environ.get(variable)
    if text is None:
        raise EnvironmentVariableError("Environment variable {} is not set. Start the program with `ascpipe run`, "
                                       "horovodrun or mpirun, or set it (for a single process: {}=0 {}=1 {}=1)".format(
                                           variable, known.rank, known.size, known.local_size))
    number = number_in(text)
    if number is None:
        raise EnvironmentVariableError("Environment variable {} has the value {}, which is not a number of ranks. "
                                       "Set it to a number in digits".format(variable, shown(text)))
    return number


def number_in(text: str) -> Optional[int]:
    """Parse the value of an environment variable. Return None if the value is not a number of one to nine digits.

    Other notations are refused, because Horovod, MPI and ascpipe may parse them differently.
    """
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
