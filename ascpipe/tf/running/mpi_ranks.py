"""The rank of this process and the number of ranks, from the variables of the MPI launcher."""
import os

_RANK = "OMPI_COMM_WORLD_RANK"
_SIZE = "OMPI_COMM_WORLD_SIZE"
_LOCAL_SIZE = "OMPI_COMM_WORLD_LOCAL_SIZE"


def get_rank_id() -> int:
    """Number of this process among all.

    Raises:
        RuntimeError: the process was not started by MPI, so the variable is unset.
        ValueError: the variable is not a number.
    """
    return _number(_RANK)


def get_rank_size() -> int:
    """The number of processes. Raises as ``get_rank_id`` does."""
    return _number(_SIZE)


def get_local_rank_size() -> int:
    """The number of processes on this machine. Raises as ``get_rank_id`` does."""
    return _number(_LOCAL_SIZE)


def get_device_id() -> int:
    """Number of this process's device: its rank, modulo the processes of this machine. Raises as ``get_rank_id``."""
    return _number(_RANK) % max(1, _number(_LOCAL_SIZE))


def launched_by_mpi() -> bool:
    """Whether a launcher has set the rank."""
    return _RANK in os.environ or _SIZE in os.environ


def _number(variable: str) -> int:
    text = os.environ.get(variable)
    if text is None:
        raise RuntimeError("environment variable {} is not set; start the program with mpirun, or set it "
                           "(0 of 1 process: {}=0 {}=1 {}=1)".format(variable, _RANK, _SIZE, _LOCAL_SIZE))
    try:
        number = int(text)
    except ValueError:
        raise ValueError("environment variable {}={!r} is not a number".format(variable, text)) from None
    if number < 0:
        raise ValueError("environment variable {}={} is less than 0".format(variable, number))
    return number
