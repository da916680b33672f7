"""Runs programs by ``ascpipe run``; those of ``tests/support/programs/ascend_*`` as run scripts do: by variables of the
environment."""
import json
import os
import subprocess
import sys

from tests.support.daemons import ROOT
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


def start(script, *arguments, options=(), cwd="/", **environment):
    """A program that runs."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "RANK_"))}
    return subprocess.Popen([sys.executable, "-m", "ascpipe", "run", *options, str(script), *arguments], cwd=str(cwd),
                            env={**variables, "PYTHONPATH": ROOT, **environment}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def run(script, *arguments, **kwargs):
    """(exit code, standard output, standard error) of a program."""
    process = start(script, *arguments, **kwargs)
    out, err = process.communicate()
    return process.returncode, out, err


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
