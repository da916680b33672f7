"""``ascpipe clean``: removes what dead daemons left, and compiled kernels of other versions."""
import json
import os
import shutil
import time
from typing import List

import click

from ascpipe import names
from ascpipe.cli.setting_options import config_option

_IN_USE_S = 24 * 3600.0  # each daemon that starts touches the folder of its kernels


@click.command("clean", help="Remove what dead daemons left, and compiled kernels of other versions.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--all-kernels", is_flag=True,
              help="Also kernels of other versions that a daemon has used within a day.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of lines.")
@config_option
def command(dry_run: bool, all_kernels: bool, as_json: bool) -> None:
    """Touches no daemon that lives, and no logs of failed sessions (`ascpipe logs --failed`)."""
    from ascpipe.config import load_settings
    from ascpipe.daemon.run_directory import remove_dead_runs

    runs = remove_dead_runs(dry_run=dry_run) if names.known_names() else []
    kernels = old_kernels(load_settings().cache_dir, within_s=0.0 if all_kernels else _IN_USE_S)
    for folder in kernels:
        if not dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        click.echo(json.dumps({"removed": not dry_run, "run_directories": list(runs), "kernels": kernels}, indent=2))
        return
    for one in ["run directory " + path for path in runs] + ["compiled kernels " + folder for folder in kernels]:
        click.echo("{} {}".format("would remove" if dry_run else "removed", one))
    if not runs and not kernels:
        click.echo("ascpipe: there is nothing to remove")


def old_kernels(cache_dir: str, *, within_s: float) -> List[str]:
    """Folders of kernels of other versions that no daemon has begun to use within these seconds."""
    from ascpipe.daemon import kernel_cache

    return [folder for folder in kernel_cache.folders_of_others(cache_dir)
            if os.path.getmtime(folder) <= time.time() - within_s]
