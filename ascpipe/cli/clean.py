"""Command ``ascpipe clean``, which removes files of dead daemons, compiled kernels of other versions, or all files."""
import contextlib
import json
import os
import shutil
import time
from typing import List, Tuple

import click

from ascpipe import names
from ascpipe.cli.setting_options import config_option

_IN_USE_S = 24 * 3600.0  # a starting daemon touches its kernel folder
_RUNS = "run directory"
_KERNELS = "compiled kernels"
_BUILDS = "built ops"
_ENVIRONMENTS = "installed packages"
_WHEELS = "wheels"  # folder of `make ranks` in the user's cache


@click.command("clean", help="Remove the files of dead daemons, and compiled kernels of other versions.",
               short_help="Remove files of dead daemons and old kernels.")
@click.option("--dry-run", is_flag=True, help="Only list the files that would be removed.")
@click.option("--all-kernels", is_flag=True,
              help="Also remove kernels of other versions that were used in the last 24 hours.")
@click.option("--everything", is_flag=True,
              help="Remove all files that ascpipe keeps for this user, to uninstall ascpipe. Stop all daemons first.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def command(dry_run: bool, all_kernels: bool, everything: bool, as_json: bool) -> None:
    """Remove files that no daemon uses any more. Only ``--everything`` removes the logs of failed sessions."""
    from ascpipe.config import load_settings
    from ascpipe.daemon.run_directory import remove_dead_runs
    from ascpipe.directories import refusing

    if everything:
        _refuse_where_a_daemon_lives()
    cache_dir = load_settings().cache_dir
    found = [(_RUNS, path) for path in remove_dead_runs(dry_run=dry_run)] if names.known_names() else []
    folders = kept_for_this_user(cache_dir) if everything else [(_KERNELS, folder) for folder in old_kernels(
        cache_dir, within_s=0.0 if all_kernels else _IN_USE_S)]
    for _, folder in folders if not dry_run else ():
        with refusing(folder):
            shutil.rmtree(folder)
    if everything and not dry_run:
        _remove_empty(cache_dir)
    found += folders
    if as_json:
        click.echo(json.dumps({"removed": not dry_run, "found": [
            {"what": what, "path": path} for what, path in found]}, indent=2))
        return
    for what, path in found:
        click.echo("{} {} {}".format("would remove" if dry_run else "removed", what, path))
    if not found:
        click.echo("ascpipe: there is nothing to remove")


def old_kernels(cache_dir: str, *, within_s: float) -> List[str]:
    """Return the kernel folders of other versions. Omit folders used in the last ``within_s`` seconds."""
    from ascpipe.daemon import kernel_cache

    return [folder for folder in kernel_cache.other_folders(cache_dir)
            if os.path.getmtime(folder) <= time.time() - within_s]


def kept_for_this_user(cache_dir: str) -> List[Tuple[str, str]]:
    """Return a pair (description, path) for each folder that ascpipe keeps for this user.

    These folders contain the kernels of all versions, indexes of data files whose folders cannot be written, the logs
    of failed sessions, the records of runs, and files of the set-up: built ops, installed packages, and wheels.
    """
    from ascpipe.control import run_record
    from ascpipe.daemon import kept_logs, kernel_cache
    from ascpipe.data import index
    from ascpipe.tfops import kept_builds

    found = [(_KERNELS, folder) for folder in [
        kernel_cache.folder_of(cache_dir), *kernel_cache.other_folders(cache_dir)]]
    for what, prefix in ((_BUILDS, kept_builds.OPS), (_ENVIRONMENTS, kept_builds.ENVIRONMENTS)):
        found += [(what, folder) for folder in sorted({*kept_builds.folders(cache_dir, prefix),
                                                       *kept_builds.folders("", prefix)})]
    found.append(("built wheels", os.path.join(kernel_cache.base_dir(""), _WHEELS)))
    found += [("indexes of data files", index.cache_folder()), ("logs of failed sessions", kept_logs.base_dir()),
              ("records of runs", run_record.base_dir())]
    return [(what, folder) for what, folder in found if os.path.isdir(folder)]


def _refuse_where_a_daemon_lives() -> None:
    from ascpipe.control.client import running_daemons
    from ascpipe.control.lock import owner_of
    from ascpipe.errors import DaemonError

    living = running_daemons()
    if living:
        raise DaemonError("nothing was removed: {} still. Stop it first with ascpipe stop --name, or end its "
                          "training program".format(", ".join("daemon {!r}, pid {}, runs".format(
                              name, owner_of(names.RunDir(name))["pid"]) for name in living)))


def _remove_empty(cache_dir: str) -> None:
    """Remove the parent directories of the removed folders if the directories are empty."""
    from ascpipe.daemon import kept_logs, kernel_cache

    for folder in {kernel_cache.base_dir(cache_dir), kernel_cache.base_dir(""), os.path.dirname(kept_logs.base_dir()),
                   names.base_dir()}:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
