"""Runs programs by ``ascpipe run``; those of ``tests/support/programs/ascend_*`` as run scripts do: by variables of the
environment."""
import contextlib
import json
import os
import subprocess
import sys
from typing import Any, Iterator, List
from unittest import mock

from tests.support.daemons import ROOT, DaemonProcess
from tests.support.forked_calls import ForkServer, running_server
from tests.support.programs.running import RING_BYTES

PROGRAMS = os.path.join(ROOT, "tests/support/programs")
QUIET = {"PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3", "ASCPIPE_RING_BYTES": str(RING_BYTES)}

DONE = "Demo done!"
#: What run scripts export beside switches, most of it for a card.
EXPORTED = {
    "MXREC_MODE": "ASC", "MXREC_LOG_LEVEL": "INFO", "KEY_PROCESS_THREAD_NUM": "6", "FAST_UNIQUE": "1",
    "MGMT_HBM_TASK_MODE": "1", "USE_COMBINE_FAAE": "0", "RANK_SIZE": "1", "HCCL_CONNECT_TIMEOUT": "1200",
    "CM_CHIEF_IP": "127.0.0.1", "CM_CHIEF_PORT": "60001", "CM_CHIEF_DEVICE": "0", "CM_WORKER_IP": "127.0.0.1",
    "CM_WORKER_SIZE": "1", "ASCEND_SLOG_PRINT_TO_STDOUT": "0", "TF_CPP_MIN_LOG_LEVEL": "1"}


ENDS_WITHIN_S = 250.0  #: a program that is forked; of others the test has a limit
_servers: List[ForkServer] = []  #: the one that forks programs, if there is one
_THIS = sys.modules[__name__]


def environment_with(**more):
    """That of the tests, without a launcher's variables and with ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "RANK_"))}
    return {**kept, "PYTHONPATH": ROOT, **more}


def start(script, *arguments, options=(), cwd="/", **environment):
    """A program that runs."""
    return subprocess.Popen([sys.executable, "-m", "ascpipe", "run", *options, str(script), *arguments], cwd=str(cwd),
                            env=environment_with(**environment), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def run(script, *arguments, options=(), cwd="/", **environment):
    """(exit code, standard output, standard error) of a program."""
    server = _servers[-1] if _servers else running_server()
    if server is not None:
        called = server.call("ascpipe_run", [*options, str(script), *arguments], str(cwd),
                             environment_with(**environment))
        return called.wait(ENDS_WITHIN_S), called.out, called.err
    process = start(script, *arguments, options=options, cwd=cwd, **environment)
    out, err = process.communicate()
    return process.returncode, out, err


@contextlib.contextmanager
def served(daemon: str, folder: Any) -> Iterator[str]:
    """A daemon for several tests; within it, ``run`` forks programs from a process that has imported TensorFlow, which
    saves each of them two seconds.

    Args:
        daemon: its name, which is what is given.
        folder: for what the programs print.
    """
    serving = DaemonProcess(daemon, spared=True, ring_bytes=RING_BYTES)
    try:
        if running_server() is not None:
            yield daemon
            return
        with ForkServer("as_executed", folder) as server, mock.patch.object(_THIS, "_servers", [server]):
            yield daemon
    finally:
        serving.end()


class Refused(AssertionError):
    """A program did not end well; the text is what it wrote."""


def demo(name, daemon, folder, sizes, *flags, **switches):
    """Run a program in a folder to its good end; what it printed as JSON.

    Args:
        name: of the program.
        daemon: the daemon that serves it.
        folder: its working directory; made if it is not there.
        sizes: what is smaller than in the program.
        flags: its command line.
        switches: its environment.
    """
    os.makedirs(os.path.join(str(folder), "ssd_data"), exist_ok=True)  # as CACHE_MODE=SSD needs it
    environment = {**QUIET, **EXPORTED, "DEMO_SIZES": json.dumps(sizes),
                   **{key: str(value) for key, value in switches.items()}}
    code, out, err = run(os.path.join(PROGRAMS, name + ".py"), *flags, options=["--daemon", daemon], cwd=folder,
                         **environment)
    if code != 0:
        raise Refused("{} {} {} ended with {}\n{}".format(name, flags, switches, code, err))
    if DONE not in err:
        raise Refused("{} {} {} did not say {!r}\n{}".format(name, flags, switches, DONE, err))
    return json.loads(out.splitlines()[-1])


def plain(losses):
    """Nested lists of losses as text, so that two are compared bit by bit, and a NaN equals itself."""
    return json.dumps(losses)
