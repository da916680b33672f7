"""Entry point of a daemon process.

::

    python -m ascpipe.daemon.start --name NAME [--private-to PID] [--ready-fd FD]

The module starts the template first, so that the template loads while the daemon's modules load. Therefore, the module
imports few other modules.
"""
import os

from ascpipe.daemon.template import running_template


def begin() -> None:
    """Start the template, run a daemon, and exit the process."""
    with running_template(os.environ) as template:
        from ascpipe.daemon.main import main  # imports numpy and pydantic

        main(obj=template)


if __name__ == "__main__":
    begin()
