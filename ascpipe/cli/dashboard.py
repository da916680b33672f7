"""Command ``ascpipe dashboard``, which serves a page that shows a running daemon in a browser."""
import contextlib
import sys
from typing import Optional

import click

from ascpipe import names
from ascpipe.cli.chosen import chosen, name_option
from ascpipe.control import messages
from ascpipe.control.child import reap
from ascpipe.control.client import ask

_END_S = 3.0
_FAILED = 1


@click.command("dashboard", help="Show a daemon in a browser, until Ctrl-C.")
@name_option
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True,
              help="Port of the page on 127.0.0.1; 0 chooses a free port.")
def command(name: Optional[str], port: int) -> None:
    """Print the address of the page. Start a process that serves the page, unless the daemon already serves it."""
    from ascpipe.daemon.exporter import open_page, started

    run = chosen(name)
    ask(run, messages.Status())
    address = names.dashboard_of(run)
    if address:
        click.echo("ascpipe: dashboard of daemon {!r}: {}".format(run.name, address))
        return
    page = open_page(port)
    address = page.address
    process = started(run.name, sys.stderr.fileno(), page=page)
    page.listener.close()
    click.echo("ascpipe: dashboard of daemon {!r}: {}\nascpipe: Ctrl-C ends it".format(run.name, address))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()
            sys.exit(_FAILED)  # reached only if the process exits before Ctrl-C
    finally:
        if process.stdin is not None:
            process.stdin.close()
        reap(process, _END_S)
