"""What is executed to get a daemon: first the template begins to load, then the daemon's own modules do, beside it.

    python -m ascpipe.daemon.start --name NAME [--private] [--ready-fd FD]

Imports as little as it can, for that reason.
"""
import contextlib
import os
from typing import Optional

from ascpipe.daemon.template import Template, start_template


def begin() -> None:
    """Be a daemon; exits the process."""
    with contextlib.ExitStack() as end:
        template: Optional[Template] = None
        with contextlib.suppress(OSError):  # too many processes: what comes next will say so, or does without
            template = start_template(os.environ)
            end.callback(template.end)  # where it refuses to start; else the daemon has ended it
        from ascpipe.daemon.main import main  # with numpy, pydantic and zmq

        main(obj=template)


if __name__ == "__main__":
    begin()
