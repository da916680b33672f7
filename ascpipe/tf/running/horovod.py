"""Starts Horovod for several ranks, and ends it in time.

It is imported here alone, and where there are several ranks alone. The program may have called ``hvd.init`` before.
Once Horovod is shut down a process cannot start it again: it would abort.
"""
import atexit
import http.client
import importlib
import logging
import os
import threading
import time
from typing import Any, Callable, Collection, NamedTuple, Optional

from ascpipe import ranks
from ascpipe.errors import HorovodMissingError, RanksDisagreeError, RanksError
from ascpipe.tf.running import gloo_loops
from ascpipe.tf.running.late_lines import LateLines
from ascpipe.tf.running.process import Process, terminate_config_initializer

EXIT_CODE = 70  #: of a rank whose exit would wait for a stopped one
START_TIMEOUT_S = 600.0

_GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_GLOO_TIMEOUT_S = 10  # until a rank that a signal has stopped is noticed; Horovod's own is 30
_FUSION = "HOROVOD_FUSION_THRESHOLD"
_FUSED_FROM = 3  # ranks: with two, a sum has one order
_SHUT_DOWN_S = 3.0
_POLL_S = 0.05

_log = logging.getLogger(__name__)


class Started(NamedTuple):
    """Horovod, as it runs in this process.

    Attributes:
        module: ``horovod.tensorflow``.
        rank: of this process.
        size: how many ranks there are.
        library: path of the library with Horovod's C++ functions.
    """

    module: Any
    rank: int
    size: int
    library: str


class _Current:
    """What ``started`` has found, and in which process."""

    started: Optional[Started] = None
    pid: Optional[int] = None


def started(timeout_s: float = START_TIMEOUT_S) -> Started:
    """Horovod, which starts now unless it runs; all ranks must call this. A second call gives the same.

    Args:
        timeout_s: how long to wait until all ranks have come, where they meet at a server of horovodrun.

    Raises:
        HorovodMissingError, HorovodVersionError: it is not there, or is another version.
        RanksDisagreeError: it says another rank, or number of ranks, than the launcher.
        RanksError: ranks have not come in time; Horovod could not start, was shut down, or is of a parent process.
        RuntimeError, ValueError: as ``ascpipe.ranks.get_rank_id``.
    """
    rank = ranks.get_rank_id()
    size = ranks.get_rank_size()
    module = _imported()
    known = _Current.started
    if known is not None and _Current.pid != os.getpid():
        raise RanksError("Horovod was started by the parent of this process, and does not work in a forked child: "
                         "start it with multiprocessing's spawn")
    if known is not None and not module.is_initialized():
        raise RanksError("Horovod was shut down in this process and cannot start again: start all ranks anew "
                         "(`ascpipe run --ranks {} --restarts K` does so after a failure)".format(size))
    _warn_of_fusion(size)
    before: Collection[int] = ()
    if not module.is_initialized():
        if os.environ.get("HOROVOD_CROSS_SIZE", "1") != "1":
            ranks.check_own_name()
        _await_ranks(rank, size, timeout_s)
        os.environ.setdefault(_GLOO_TIMEOUT, str(_GLOO_TIMEOUT_S))
        before = gloo_loops.threads()
        try:
            module.init()
        except ValueError as error:
            raise RanksError("Horovod did not start: {}".format(error)) from error
    if (module.rank(), module.size()) != (rank, size):
        raise RanksDisagreeError("rank {} of {}".format(module.rank(), module.size()),
                                 "rank {} of {}".format(rank, size))
    if known is None:
        paths = importlib.import_module("horovod.common.util")
        known = Started(module, rank, size, paths.get_extension_full_path(module.__file__, "mpi_lib"))
        _Current.started = known
        _Current.pid = os.getpid()
        gloo_loops.make_loops_batch(before)
        _end_at_exit(module)
    return known


def joined() -> Optional[Started]:
    """``started`` where a launcher says that there are several ranks, else None."""
    return started() if ranks.launched() and ranks.get_rank_size() > 1 else None


def _imported() -> Any:
    ranks.check_horovod()
    try:
        return importlib.import_module("horovod.tensorflow")
    except ImportError as error:  # built without TensorFlow, or for another one
        raise HorovodMissingError(" ".join(str(error).split())) from error


def _warn_of_fusion(size: int) -> None:
    fused = os.environ.get(_FUSION) != "0" or os.environ.get("HOROVOD_AUTOTUNE", "0") not in ("", "0")
    if size >= _FUSED_FROM and fused and _Current.started is None:
        _log.warning("with %d ranks Horovod's sums of dense gradients depend on timing: start the ranks with %s=0 and "
                     "without HOROVOD_AUTOTUNE (`ascpipe run` does) for runs that are the same bits", size, _FUSION)


def _await_ranks(rank: int, size: int, timeout_s: float) -> None:
    """Wait until all ranks are here, at horovodrun's server: gloo would give each the short time of one exchange."""
    address = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    if not address or not port:
        return  # Open MPI waits by itself
    deadline = time.monotonic() + timeout_s
    missing = set(range(size))
    lines = LateLines()
    try:
        _asked(address, port, "PUT", rank)
        while missing:
            missing -= {other for other in missing if _asked(address, port, "GET", other) == 200}
            if missing and time.monotonic() > deadline:
                raise RanksError("rank {} waited {:g} s for the start of rank {}".format(
                    rank, timeout_s, ", ".join(map(str, sorted(missing)))))
            if missing and lines.is_due():
                _log.warning("rank %d has waited %.0f s for the start of rank %s, and waits for %.0f s at most", rank,
                             lines.waited_s(), ", ".join(map(str, sorted(missing))), timeout_s)
            if missing:
                time.sleep(_POLL_S)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RanksError("rank {} does not reach the launcher at {}:{}: {}".format(
            rank, address, port, error)) from error


def _asked(address: str, port: str, verb: str, rank: int) -> int:
    connection = http.client.HTTPConnection(address, int(port), timeout=10.0)
    try:
        connection.request(verb, "/ascpipe/rank-{}".format(rank), body=b"here" if verb == "PUT" else None)
        return connection.getresponse().status
    finally:
        connection.close()


def _end_at_exit(module: Any) -> None:
    """Let the exit end Horovod in time; what ``init`` began ends before that, as it may still say good-bye."""
    atexit.register(_shut_down_in_time, module.shutdown)
    # Handlers run last one first. Without init this one says nothing and does nothing.
    atexit.unregister(terminate_config_initializer)
    atexit.register(_end_process)


def _end_process() -> None:
    if Process.is_initialised():
        terminate_config_initializer()


def _shut_down_in_time(shut_down: Callable[[], None], wait_s: float = _SHUT_DOWN_S) -> None:
    """Shut Horovod down, or end the process without: it waits without limit for a rank that a signal has stopped."""
    done = threading.Event()

    def end() -> None:
        shut_down()
        done.set()

    threading.Thread(target=end, name="asc-horovod-end", daemon=True).start()
    if done.wait(wait_s):
        return
    ranks.end_at_once("Horovod's shut-down took more than {:g} s, another rank does not answer: exit code {}".format(
        wait_s, EXIT_CODE), EXIT_CODE)
