"""Entry point of a daemon process: starts the template first, so that it loads beside the daemon's own modules.

    python -m ascpipe.daemon.start --name NAME [--private-to PID] [--ready-fd FD]

Imports as little as it can, for that reason.
"""
import os

from ascpipe.daemon.template import running_template


def begin() -> None:
    """Run a daemon, then exit the process."""
    with running_template(os.environ) as template:
        from ascpipe.daemon.main import main  # with numpy and pydantic

        main(obj=template)


if __name__ == "__main__":
    begin()
