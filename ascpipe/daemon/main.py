"""Main function of a daemon process. Users run ``ascpipe start``. The started process executes
``ascpipe.daemon.start``.

Settings are read from the environment and from the file of $ASCPIPE_CONFIG.
"""
import contextlib
import gc
import json
import logging
import os
import resource
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import click

from ascpipe import eviction_log
from ascpipe.config import Settings, load_settings
from ascpipe.control.launch import child_environment
from ascpipe.control.process_title import set_process_title
from ascpipe.daemon import kernel_cache, run_directory, supervisor
from ascpipe.daemon.exporter import Exporter
from ascpipe.daemon.loop import Daemon
from ascpipe.daemon.template import Template
from ascpipe.daemon.watching import Watch
from ascpipe.directories import refusing
from ascpipe.errors import AscpipeError
from ascpipe.layout import kernel_library
from ascpipe.logs import open_log
from ascpipe.names import is_private_name
from ascpipe.shm.memory import Places

_FILES = 65536

FAILED = 1  #: exit code for refusals and internal errors


def run(name: str, settings: Settings, *, private_to: int, ready: Callable[[str], None], log_to_file: bool,
        commands: Mapping[str, Sequence[str]] = supervisor.COMMANDS,
        places: Places = Places(),  # noqa: B008  (immutable)
        template: Optional[Template]) -> None:
    """Run the daemon ``name`` until it is stopped.

    Args:
        private_to: PID of the process that starts a private daemon, or 0 for other daemons. A private daemon
            exits together with its trainer, or together with that process if no trainer has registered.
        ready: called with the name when the daemon answers requests.
        log_to_file: whether to redirect stdout and stderr to the log in the run directory.
        commands: commands that execute workers.
        places: files and folders with memory limits.
        template: process from which workers are forked. It is killed when the daemon ends. If None, workers are
            executed.

    Raises:
        AscpipeError: the daemon cannot start. All its files except logs are removed.
    """
    os.umask(0o077)
    set_process_title("daemon " + name)
    _allow_many_files()
    processors = supervisor.bound_processors(settings)
    cache_dir = kernel_cache.prepare(settings.cache_dir)
    if settings.eviction_log:
        eviction_log.require_writable(settings.eviction_log)
    owned = run_directory.OwnedRunDir(name)
    told = kernel_cache.compile_notice(cache_dir, os.environ)
    if told:  # stderr still belongs to the program or to `ascpipe start`
        sys.stderr.write(told + "\n")
    ended_well = False
    try:
        with refusing(owned.run.path):
            if log_to_file:
                _redirect(owned.run.log)
            log = open_log("daemon")
            if owned.killed is not None:
                log.warning("the previous daemon (pid %s) did not end by itself", owned.killed)
            for left in owned.swept:
                log.info("removed %s", left)
            environment = {**child_environment(), "NUMBA_CACHE_DIR": cache_dir, "PYTHONFAULTHANDLER": "1"}
            environment[kernel_library.VARIABLE] = _verified_kernels(cache_dir, environment)
            exporter = Exporter(owned.run, settings)
            workers = supervisor.Supervisor(owned.run, environment, commands, processors, template)
            daemon = Daemon(owned, settings, private_to=private_to, cache_dir=cache_dir, places=places,
                            supervisor=workers, watch=Watch(workers, owned, settings, exporter))
        try:
            log.info("started, pid %d", os.getpid())
            if os.geteuid() == 0:
                log.warning("this daemon runs as root, although it needs no privileges")
            daemon.serve(lambda: ready(name))
            ended_well = True
            _seal(cache_dir)
        except Exception:
            log.exception("ended by a bug")
            raise
        finally:
            exporter.close()
            daemon.close()
        log.info("ended")
    finally:
        owned.leave(keep_log=not (ended_well and (private_to or is_private_name(name))) and log_to_file)


def _verified_kernels(folder: str, environment: Mapping[str, str]) -> str:
    """Remove damaged kernels. Return the path of the kernel library to load, or an empty string if numba loads or
    compiles the kernels.
    """
    with refusing(folder):
        for damaged in kernel_cache.drop_damaged(folder):
            logging.getLogger("ascpipe.daemon").warning(
                "compiled kernel %s was damaged; it was removed and will be recompiled", damaged)
    library = kernel_cache.library(folder, environment)
    if not library:
        kernel_cache.require_writable(folder)
    return library


def _seal(folder: str) -> None:
    """Record the digests of compiled kernels. If the digests cannot be written, only log a warning, because the kernels
    remain usable.
    """
    try:
        kernel_cache.seal(folder)
    except OSError as error:
        logging.getLogger("ascpipe.daemon").warning("compiled kernels in %s are not protected by checksums: "
                                                    "%s", folder, error)


def _allow_many_files() -> None:
    """Raise the limit of open files, because each connection and each segment needs a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _redirect(path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)


def tell(fd: int, told: Dict[str, Any]) -> None:
    """Write a report to the pipe of the process that started the daemon, and close the pipe.

    The function does nothing if ``fd`` is negative. It is not an error if that process has exited.
    """
    if fd < 0:
        return
    with contextlib.suppress(BrokenPipeError):
        os.write(fd, json.dumps(told).encode())
        os.close(fd)


def serve(name: str, *, private_to: int, ready_fd: int, **replaced: Any) -> None:
    """Call ``run``. Report to the launcher through ``ready_fd`` when the daemon is ready. Then exit the process."""
    told = []

    def ready(daemon: str) -> None:
        told.append(daemon)
        tell(ready_fd, {"ready": True, "pid": os.getpid(), "name": daemon})

    if ready_fd >= 0:
        os.set_inheritable(ready_fd, False)
    gc.freeze()  # modules are permanent, so garbage collections need not visit them
    try:
        run(name, load_settings(), private_to=private_to, ready=ready, log_to_file=True, **replaced)
    except AscpipeError as error:
        if not told:
            tell(ready_fd, {"ready": False, "code": error.code, "text": error.sentence()})
        sys.exit(FAILED)
    except Exception as error:
        if not told:
            tell(ready_fd, {"ready": False, "text": "a bug, {}: {}".format(type(error).__name__, error)})
        raise
    sys.exit(0)


@click.command("ascpipe-daemon")
@click.option("--name", required=True, help="Name of the daemon.")
@click.option("--private-to", type=int, default=0, help="Process to end with, or the trainer that registers.")
@click.option("--ready-fd", type=int, default=-1, help="Descriptor to write one JSON object to.")
@click.pass_obj
def main(template: Optional[Template], name: str, private_to: int, ready_fd: int) -> None:
    """Run a daemon."""
    serve(name, private_to=private_to, ready_fd=ready_fd, template=template)
