"""A small session of a private daemon with real workers: prints what came of it, one JSON object.

    python -m tests.support.programs.served_session

``error``: what was raised, or why the session failed; ``attached``: kinds of the workers that work; ``memfd``: whether
its memory is memfds.
"""
import json
import sys

from ascpipe.control import trainer_link
from ascpipe.errors import AscpipeError
from ascpipe.shm import syscalls
from tests.support.daemons import LAYOUT, small_session
from tests.support.waiting import wait_until

PATIENCE_S = 60.0


def served():
    link = trainer_link.connect(layout=LAYOUT)
    try:
        fd = link.start(*small_session()).session[0]
        memfd = syscalls.seals_of(fd) == syscalls.SEALS
        wait_until(lambda: link.status()["failure"] or all(one["attached"] for one in link.status()["workers"]),
                   PATIENCE_S)
        status = link.status()
        return {"error": status["failure"], "memfd": memfd,
                "restarts": sum(one["restarts"] for one in status["workers"]),
                "attached": sorted(one["kind"] for one in status["workers"] if one["attached"])}
    finally:
        link.close()


def main():
    try:
        told = served()
    except AscpipeError as error:
        told = {"error": str(error), "attached": []}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
