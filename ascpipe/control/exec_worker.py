"""Executes a worker: sets what only the process itself can set, then replaces itself by the command.

    python -I -S exec_worker.py SUPERVISOR_PID OOM_SCORE_ADJ PROCESSOR COMMAND...

PROCESSOR is the number of the one to run on, or -1.

A program of its own: nothing of the supervisor runs between its fork and exec.  Imports nothing of ours.
"""
import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1

BROKEN_KERNELS = 74  #: exit code of a worker that could not read the compiled kernels; sysexits calls it EX_IOERR
NO_ROOM_FOR_KERNELS = 73  #: of one that could not keep what it compiled: EX_CANTCREAT


def main() -> None:
    """Never returns."""
    supervisor, oom_score_adj, processor, *command = sys.argv[1:]
    fence_in(int(supervisor), oom_score_adj, int(processor))
    os.execv(command[0], command)  # noqa: S606  (a fixed command of the supervisor)


def fence_in(supervisor: int, oom_score_adj: str, processor: int) -> None:
    """Make this process die with its supervisor and by its word only, keep its files to this user, leave no core file,
    go first or last when memory runs out, and run on one processor, unless that is -1. Ends the process if the
    supervisor has died before."""
    os.umask(0o077)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT):  # sent to a whole group; only the supervisor ends a worker
        signal.signal(number, signal.SIG_IGN)
    if os.getppid() != supervisor:  # it died before the line above took effect
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold rows
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(oom_score_adj)
    except OSError:
        pass  # some containers forbid it; then the kernel chooses by size
    if processor >= 0:
        os.sched_setaffinity(0, {processor})


if __name__ == "__main__":
    main()
