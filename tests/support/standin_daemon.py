"""Runs the real daemon with other workers: stand-ins, or those of $ASCPIPE_X_STANDIN_WORKERS, a module.

    python -m tests.support.standin_daemon --name NAME [--private-to PID] [--ready-fd FD]
"""
import os
import sys

import click

from ascpipe.daemon import main
from ascpipe.shm.memory import Places


def commands():
    module = os.environ.get("ASCPIPE_X_STANDIN_WORKERS", "tests.support.standin_worker")
    return {kind: (sys.executable, "-m", module, kind) for kind in ("key", "table")}


@click.command()
@click.option("--name", required=True)
@click.option("--private-to", type=int, default=0)
@click.option("--ready-fd", type=int, default=-1)
def run(name, private_to, ready_fd):
    folder = os.environ.get("ASCPIPE_X_STANDIN_PLACES")  # files that say how much memory there is
    replaced = {} if folder is None else {"places": Places(
        os.path.join(folder, "shm"), os.path.join(folder, "meminfo"), os.path.join(folder, "groups"), folder)}
    main.serve(name, private_to=private_to, ready_fd=ready_fd, commands=commands(), template=None, **replaced)


if __name__ == "__main__":
    run()
