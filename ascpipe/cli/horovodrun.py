"""Program that runs Horovod's launcher ``horovodrun``, wherever Horovod's own script is installed.

::

    python horovodrun.py ARGUMENTS OF HOROVODRUN...

The working directory is not on ``sys.path``, unlike with ``python -m``. Errors of failed ranks, or of a Horovod without
MPI, are printed without the launcher's traceback.

Horovod replaces this process by a shell that starts mpirun. This program makes mpirun replace that shell. So mpirun
receives the signals to this process, and the signal that the kernel sends if the parent of this process dies.
"""
import os
import sys
from typing import List, Mapping


def main() -> None:
    """Run the launcher. Return if all ranks succeeded."""
    del sys.path[0]  # the folder of this file
    from horovod.runner import mpi_run
    from horovod.runner.launch import run_commandline

    mpi_run.os = _Os()
    try:
        run_commandline()
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))


class _Os:
    """Module ``os`` with an ``execve`` that replaces the shell by its only command."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    @staticmethod
    def execve(path: str, arguments: List[str], environment: Mapping[str, str]) -> None:
        """Run ``sh -c COMMAND`` as ``sh -c 'exec COMMAND'``."""
        if arguments[:-1] == ["/bin/sh", "-c"]:
            arguments = [*arguments[:-1], "exec " + arguments[-1]]
        os.execve(path, arguments, environment)  # noqa: S606


if __name__ == "__main__":
    main()
