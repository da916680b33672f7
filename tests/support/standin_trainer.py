"""A trainer without TensorFlow: starts a small session, reports that, and sleeps until it is killed.

    python -m tests.support.standin_trainer DAEMON|- [fork]

Prints one JSON line: its pid, the daemon's pid and name, the child's pid.
"""
import json
import os
import signal
import sys

from ascpipe.control import launch, trainer_link
from ascpipe.shm import segment
from tests.support import daemons


def main():
    launch.MODULE = daemons.STANDIN
    link = trainer_link.connect(None if sys.argv[1] == "-" else sys.argv[1], layout=daemons.LAYOUT)
    pieces = link.start(*daemons.small_session())
    mapped = [segment.map(*piece) for piece in [pieces.session, *pieces.streams.values(), *pieces.tables.values()]]
    link.close_segments()
    child = 0
    if "fork" in sys.argv:
        child = os.fork()
        if child == 0:
            signal.pause()
    mapped[0][-1] = 1  # the parent still has its memory
    told = {"pid": os.getpid(), "daemon": link.daemon_pid, "name": link.name, "child": child}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main()
