"""Program that isolates its own process, and then executes a worker.

::

    python -I -S exec_worker.py SUPERVISOR_PID OOM_SCORE_ADJ PROCESSOR COMMAND...

PROCESSOR is the number of the processor on which the worker runs, or -1 for any. The program is separate so that no
code of the supervisor runs between fork and exec. The program imports no module of ascpipe.
"""
import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1

BROKEN_KERNELS = 74  #: exit code of a worker that could not read the compiled kernels (EX_IOERR)
NO_ROOM_FOR_KERNELS = 73  #: exit code of a worker that could not store compiled kernels (EX_CANTCREAT)


def main() -> None:
    """Execute the command. This function does not return."""
    supervisor, oom_score_adj, processor, *command = sys.argv[1:]
    isolate(int(supervisor), oom_score_adj, int(processor))
    os.execv(command[0], command)  # noqa: S606  (a fixed command of the supervisor)


def isolate(supervisor: int, oom_score_adj: str, processor: int) -> None:
    """Isolate this process, and tell the kernel to kill this process when the supervisor dies.

    The process ignores SIGTERM and SIGINT. Its files are private, and it writes no core file. It runs on one
    processor unless ``processor`` is -1. It exits with code 1 if the supervisor is already dead.
    """
    os.umask(0o077)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):  # only the supervisor may end a worker
        signal.signal(number, signal.SIG_IGN)
    if os.getppid() != supervisor:  # the supervisor died before PR_SET_PDEATHSIG took effect
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would contain rows
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(oom_score_adj)
    except OSError:
        pass  # some containers forbid the write; the out-of-memory killer then chooses processes by size
    if processor >= 0:
        os.sched_setaffinity(0, {processor})


if __name__ == "__main__":
    main()
