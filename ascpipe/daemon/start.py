"""Entry point of a daemon process. It starts the template first, which loads while the daemon's modules load.

    python -m ascpipe.daemon.start --name NAME [--private-to PID] [--ready-fd FD]

For that reason it imports as little as possible.
"""
import os

from ascpipe.daemon.template import running_template


def begin() -> None:
    """Run a daemon, then exit the process."""
    with running_template(os.environ) as template:
        from ascpipe.daemon.main import main  # imports numpy and pydantic

        main(obj=template)


if __name__ == "__main__":
    begin()
