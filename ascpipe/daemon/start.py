"""What is executed to get a daemon: first the template begins to load, then the daemon's own modules do, beside it.

    python -m ascpipe.daemon.start --name NAME [--private] [--ready-fd FD]

Imports as little as it can, for that reason.
"""
import os

from ascpipe.daemon.template import running_template


def begin() -> None:
    """Be a daemon; exits the process."""
    with running_template(os.environ) as template:
        from ascpipe.daemon.main import main  # with numpy, pydantic and zmq

        main(obj=template)


if __name__ == "__main__":
    begin()
