"""Template, a process with preloaded code from which workers are forked.

::

    python -m ascpipe.workers.template --channel FD --supervisor PID --oom-score-adj NUMBER

The template starts before the supervisor has determined the location of the compiled kernels, and loads numpy. When the
supervisor sends the location, the template loads the workers with their kernels, from a library or from numba's cache.

An executed worker needs up to a second of processor time to load its code. A fork of the template starts in
milliseconds. The template starts no threads and has no segments or data of a trainer, so a fork inherits only code.

Workers are forked twice. The intermediate process exits, so the supervisor, a subreaper, becomes the worker's parent.
"""
import gc
import os
import signal
import socket
import struct
import sys
import traceback
from typing import Any, Dict, List, Mapping, NoReturn, Tuple

import click

from ascpipe.control import fdsocket
from ascpipe.control.exec_worker import isolate
from ascpipe.control.process_title import set_process_title
from ascpipe.errors import ConnectionClosedError
from ascpipe.layout import kernel_library
from ascpipe.workers.loading import exit_code

_IDLE_S = 1e9  # practically unlimited; the wait ends when the supervisor exits
_PID = struct.Struct("<i")

_Kinds = Mapping[str, click.Command]


def serve(supervisor: socket.socket) -> None:
    """Load the code, send ``loaded``, then fork a worker per request. Return when the supervisor has exited."""
    try:
        kinds = _load(supervisor)
        fdsocket.send(supervisor, {"verb": "loaded"})
        while True:
            body, fds = fdsocket.receive(supervisor, _IDLE_S)
            pid, begin = _fork(supervisor, kinds, body, fds)
            fdsocket.send(supervisor, {"verb": "forked", "pid": pid})
            os.write(begin, b"\0")  # the worker starts now, because the supervisor must have its PID before it runs
            for fd in (begin, *fds):
                os.close(fd)
    except ConnectionClosedError:
        return


def _load(supervisor: socket.socket) -> _Kinds:
    """Load the code of the workers. Compiled kernels are loaded from the location that the supervisor sends. Return the
    commands of the workers.
    """
    gc.disable()  # collections would need a sixth of the load time and free no memory
    import numpy  # noqa: F401  (workers need it; the import runs while the supervisor determines the location)

    body, (log,) = fdsocket.receive(supervisor, _IDLE_S)
    _write_to(log)
    os.environ[kernel_library.VARIABLE] = body["library"]
    if body["cache_dir"]:
        os.environ["NUMBA_CACHE_DIR"] = body["cache_dir"]
    from ascpipe.workers import disk_worker, key_worker, table_worker

    gc.enable()
    gc.freeze()  # a collection in a worker would write to, and therefore copy, every page shared with this process
    return {"key": key_worker.main, "table": table_worker.main, "disk": disk_worker.main}


def _write_to(log: int) -> None:
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _fork(supervisor: socket.socket, kinds: _Kinds, body: Dict[str, Any], fds: List[int]) -> Tuple[int, int]:
    """Fork a worker as a child of the supervisor.

    Returns:
        Process id, and the write end of a pipe. The worker starts when a byte is written to the pipe.
    """
    parent = os.getppid()
    reading, writing = os.pipe()
    wait, begin = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            worker = os.fork()
            if worker == 0:
                for fd in (reading, writing, begin, supervisor.detach()):
                    os.close(fd)
                _be_worker(parent, wait, kinds, body, fds)
            os.write(writing, _PID.pack(worker))
        finally:
            os._exit(0)  # also if the second fork failed; the template then reads no process id and exits
    os.close(writing)
    os.close(wait)
    os.waitpid(between, 0)
    (pid,) = _PID.unpack(os.read(reading, _PID.size))
    os.close(reading)
    return int(pid), begin


def _be_worker(supervisor: int, wait: int, kinds: _Kinds, body: Dict[str, Any], fds: List[int]) -> NoReturn:
    """Run the requested worker and exit. The function never returns to the code of the template."""
    code = 1
    try:
        channel, log = fds
        _write_to(log)
        os.setsid()
        if not os.read(wait, 1):  # the template died, so the supervisor does not have the PID of this worker
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(wait)
        isolate(supervisor, body["oom_score_adj"], body["processor"])
        kinds[body["kind"]].main(["--channel", str(channel), "--index", str(body["index"]),
                                  "--generation", str(body["generation"]), "--title", body["title"]],
                                 prog_name=body["kind"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001  (no code of the template may run here, even after an error)
        traceback.print_exc()
        code = exit_code(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@click.command("template")
@click.option("--channel", type=int, required=True, help="Descriptor of the socket to the supervisor.")
@click.option("--supervisor", "parent", type=int, required=True, help="Its process id.")
@click.option("--oom-score-adj", required=True, help="How soon it goes when memory runs out.")
def main(channel: int, parent: int, oom_score_adj: str) -> None:
    """Fork workers for a supervisor."""
    set_process_title("worker template")
    isolate(parent, oom_score_adj, -1)
    with socket.socket(fileno=channel) as supervisor:
        serve(supervisor)


if __name__ == "__main__":
    main()
