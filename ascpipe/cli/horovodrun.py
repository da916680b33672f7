"""Horovod's launcher as a program: ``horovodrun``, wherever its script was installed.

    python horovodrun.py ARGUMENTS OF HOROVODRUN...

The working folder is not on its path, as it would be by ``python -m``. What it raises when a rank has failed, or when
it was built without MPI, is printed without the stack of the launcher. mpirun, which Horovod starts by a shell, takes
the shell's place: signals to this process reach it, also when the process that started this one dies.
"""
import os
import sys
from typing import List, Mapping


def main() -> None:
    """Returns where all ranks ended well."""
    del sys.path[0]  # this folder
    from horovod.runner import mpi_run
    from horovod.runner.launch import run_commandline

    mpi_run.os = _Os()
    try:
        run_commandline()
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))


class _Os:
    """``os``, but for a shell that gets one command and would wait for it."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    @staticmethod
    def execve(path: str, arguments: List[str], environment: Mapping[str, str]) -> None:
        """``sh -c COMMAND`` as ``sh -c 'exec COMMAND'``."""
        if arguments[:-1] == ["/bin/sh", "-c"]:
            arguments = [*arguments[:-1], "exec " + arguments[-1]]
        os.execve(path, arguments, environment)  # noqa: S606


if __name__ == "__main__":
    main()
