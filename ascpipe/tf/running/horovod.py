"""Start of Horovod for several ranks, and shutdown of Horovod with a timeout.

Only this module imports Horovod. Horovod is imported only with several ranks. The program may already have called
``hvd.init``. A process aborts if it starts Horovod again after a shutdown.
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

EXIT_CODE = 70  #: exit code of a process that would otherwise wait for a stopped rank
START_TIMEOUT_S = 600.0

_GLOO_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
_GLOO_TIMEOUT_S = 10  # timeout after which a rank stopped by a signal is detected (Horovod's default is 30)
_FUSION = "HOROVOD_FUSION_THRESHOLD"
_FUSED_FROM = 3  # minimum number of ranks at which fusion changes the order of sums
_SHUT_DOWN_S = 3.0
_POLL_S = 0.05

_log = logging.getLogger(__name__)


class Started(NamedTuple):
    """The running Horovod of this process.

    Attributes:
        module: ``horovod.tensorflow``.
        library: path of the library with Horovod's C++ functions.
    """

    module: Any
    rank: int
    size: int
    library: str


class _Current:
    """Result of ``started``, and the id of the process that called ``started``."""

    started: Optional[Started] = None
    pid: Optional[int] = None


def started(timeout_s: float = START_TIMEOUT_S) -> Started:
    """Start Horovod if it is not running. All ranks must call this function. Later calls return the same object.

    Args:
        timeout_s: timeout in seconds of the wait for all ranks at horovodrun's server.

    Raises:
        HorovodMissingError, HorovodVersionError: Horovod is missing, or has another version.
        RanksDisagreeError: Horovod and the launcher report a different rank or number of ranks.
        RanksError: ranks are missing, Horovod could not start or was shut down before, or a parent process started
            Horovod.
        RuntimeError, ValueError: the same errors as in ``ascpipe.ranks.get_rank_id``.
    """
    rank = ranks.get_rank_id()
    size = ranks.get_rank_size()
    module = _imported()
    known = _Current.started
    if known is not None and _Current.pid != os.getpid():
        raise RanksError("Horovod was started by the parent of this process, and does not work in a forked child. "
                         "Start it with multiprocessing's spawn")
    if known is not None and not module.is_initialized():
        raise RanksError("Horovod was shut down in this process and cannot start again. Restart all ranks (after a "
                         "failure, `ascpipe run --ranks {} --restarts K` does this)".format(size))
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
    """Call ``started`` and return the result if a launcher started several ranks. Otherwise, return None."""
    return started() if ranks.launched() and ranks.get_rank_size() > 1 else None


def _imported() -> Any:
    ranks.check_horovod()
    try:
        return importlib.import_module("horovod.tensorflow")
    except ImportError as error:  # Horovod was built without TensorFlow, or for another version
        raise HorovodMissingError(" ".join(str(error).split())) from error


def _warn_of_fusion(size: int) -> None:
    fused = os.environ.get(_FUSION) != "0" or os.environ.get("HOROVOD_AUTOTUNE", "0") not in ("", "0")
    if size >= _FUSED_FROM and fused and _Current.started is None:
        _log.warning("with %d ranks, Horovod's sums of dense gradients depend on timing. For bitwise reproducible "
                     "runs, start the ranks with %s=0 and without HOROVOD_AUTOTUNE (`ascpipe run` does this)", size,
                     _FUSION)


def _await_ranks(rank: int, size: int, timeout_s: float) -> None:
    """Wait for all ranks at horovodrun's server. gloo itself would wait only for the timeout of a single exchange."""
    address = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    port = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT")
    if not address or not port:
        return  # Open MPI itself waits for all ranks
    deadline = time.monotonic() + timeout_s
    missing = set(range(size))
    lines = LateLines()
    try:
        _asked(address, port, "PUT", rank)
        while missing:
            missing -= {other for other in missing if _asked(address, port, "GET", other) == 200}
            if missing and time.monotonic() > deadline:
                raise RanksError("Rank {} waited {:g} s for the start of rank {} and gave up. See the output of "
                                 "the missing ranks, then restart all ranks".format(
                                     rank, timeout_s, ", ".join(map(str, sorted(missing)))))
            if missing and lines.is_due():
                _log.warning("rank %d has waited %.0f s for the start of rank %s, and waits for at most %.0f s", rank,
                             lines.waited_s(), ", ".join(map(str, sorted(missing))), timeout_s)
            if missing:
                time.sleep(_POLL_S)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise RanksError("Rank {} cannot reach the launcher at {}:{}: {}. Check that the launcher is running, and that "
                         "this machine can connect to it".format(rank, address, port, error)) from error


def _asked(address: str, port: str, verb: str, rank: int) -> int:
    connection = http.client.HTTPConnection(address, int(port), timeout=10.0)
    try:
        connection.request(verb, "/ascpipe/rank-{}".format(rank), body=b"here" if verb == "PUT" else None)
        return connection.getresponse().status
    finally:
        connection.close()


def _end_at_exit(module: Any) -> None:
    """Register the shutdown of Horovod at exit.

    The shutdown runs after the pipeline has ended, because the pipeline may still send messages to other ranks.
    """
    atexit.register(_shut_down_in_time, module.shutdown)
    # atexit calls the last registered function first. _end_process does nothing if ``init`` was not called.
    atexit.unregister(terminate_config_initializer)
    atexit.register(_end_process)


def _end_process() -> None:
    if Process.is_initialised():
        terminate_config_initializer()


def _shut_down_in_time(shut_down: Callable[[], None], wait_s: float = _SHUT_DOWN_S) -> None:
    """Shut Horovod down. Exit the process after a timeout, for example if a signal has stopped another rank."""
    done = threading.Event()

    def end() -> None:
        shut_down()
        done.set()

    threading.Thread(target=end, name="asc-horovod-end", daemon=True).start()
    if done.wait(wait_s):
        return
    ranks.end_at_once("Horovod's shutdown took more than {:g} s, because another rank does not answer: exit code {}"
                      .format(wait_s, EXIT_CODE), EXIT_CODE)
