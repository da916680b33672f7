"""Command ``ascpipe start``, which starts a daemon in the background or the foreground."""
import contextlib
import os
import socket
from typing import Any, Dict, Optional, Tuple

import click

from ascpipe.cli.setting_options import given, setting_options


@click.command("start", help="Start a daemon and return when it is ready.")
@click.option("--name", default=None, help="Name of the new daemon. Default: $ASCPIPE_NAME, otherwise 'default'.")
@click.option("--metrics-port", type=int, default=None,
              help="Port for Prometheus scrapes; 0 disables the port.  [default: 0]")
@click.option("--metrics-address", default=None, help="Address of the metrics port. Default: 127.0.0.1.")
@click.option("--metrics-file", type=click.Path(resolve_path=True), default=None,
              help="File (*.prom) for the Prometheus textfile collector.")
@click.option("--dashboard", is_flag=True, help="Serve a page that shows the training in a browser.")
@setting_options
@click.option("--foreground", is_flag=True, help="Run in the foreground until Ctrl-C, and log to stderr.")
def command(name: Optional[str], foreground: bool, dashboard: bool, others: Tuple[str, ...], **options: Any) -> None:
    """Check the settings, then start the daemon. An invalid setting is reported as a usage error."""
    from ascpipe import names
    from ascpipe.config import load_settings

    options = given(others, **options, **({"dashboard": 1} if dashboard else {}))
    settings = load_settings(options)
    run = names.run_dir(names.daemon_name(name))
    if foreground:
        from ascpipe.control.launch import child_environment
        from ascpipe.daemon.main import run as run_daemon
        from ascpipe.daemon.template import running_template

        with running_template(child_environment()) as template:
            run_daemon(run.name, settings, private_to=0, ready=_say_ready, log_to_file=False,
                       template=template)
        return
    _start_in_background(run.name, options)


def _say_ready(name: str) -> None:
    _tell_address(name)
    _tell_systemd(name)


def _tell_address(name: str) -> None:
    from ascpipe import names

    address = names.dashboard_of(names.run_dir(name))
    if address:
        click.echo("ascpipe: dashboard of daemon {!r}: {}".format(name, address))


def _tell_systemd(name: str) -> None:
    """Notify systemd that a service of ``Type=notify`` is ready (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
            sock.sendto(b"READY=1", "\0" + address[1:] if address.startswith("@") else address)


def _start_in_background(name: str, options: Dict[str, Any]) -> None:
    from ascpipe.control.launch import Launching

    launched = Launching(name, options=options).wait()
    click.echo("ascpipe: daemon {!r} started, pid {}".format(launched.name, launched.pid))
    _tell_address(launched.name)
    launched.process.returncode = 0  # prevents a warning about the child, which runs longer than this process
