"""Program that runs Horovod's launcher ``horovodrun`` without Horovod's own script, which may not be in PATH.

::

    python horovodrun.py ARGUMENTS OF HOROVODRUN...

The working directory is not on ``sys.path``, unlike with ``python -m``. Errors of failed ranks, or of a Horovod without
MPI, are printed without the launcher's traceback.

If all ranks run on a single remote machine, Horovod may choose the loopback interface. The ranks cannot connect to this
machine through that interface, so this program makes Horovod choose another interface.

Horovod replaces this process by a shell that starts mpirun. This program makes mpirun replace that shell. So mpirun
receives the signals to this process, and the signal that the kernel sends if the parent of this process dies.
"""
import os
import sys
from typing import Any, Callable, List, Mapping


def main() -> None:
    """Run the launcher. Return if all ranks succeeded."""
    del sys.path[0]  # the folder of this file
    from horovod.runner import mpi_run
    from horovod.runner.driver import driver_service
    from horovod.runner.launch import run_commandline

    mpi_run.os = _Os()
    driver_service.get_common_interfaces = without_loopback(driver_service.get_common_interfaces)
    try:
        run_commandline()
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))


def without_loopback(search: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Horovod's ``search`` for network interfaces. The wrapper omits loopback interfaces if other interfaces
    exist."""

    def found(*arguments: Any) -> Any:
        import psutil

        names = search(*arguments)
        addresses = psutil.net_if_addrs()
        return {name for name in names or () if not any(
            address.address.startswith("127.") for address in addresses.get(name, ()))} or names

    return found


class _Os:
    """Module ``os`` whose ``execve`` lets the command of ``sh -c COMMAND`` replace the shell."""

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
