"""Program that serves the dashboard of a daemon with a history: `python -m bench.page_with_history NAME POINTS`.

It prints the address of the page, and exits at the end of its input.
"""
import secrets
import socket
import sys
import time
from typing import List

from ascpipe import names
from ascpipe.dashboard.board import Board
from ascpipe.dashboard.history import OVERVIEW, TICK_S, History
from ascpipe.dashboard.site import address
from ascpipe.metrics.exporter import Answers, serve


def filled(points: int, now: float) -> History:
    """Return a history with points before ``now``, whose values all differ."""
    history = History()
    for number in range(points):
        values = {name: (number + 1) / (3 + at) for at, name in enumerate(OVERVIEW)}
        history.add(now - TICK_S * (points - number), "step", values, {})
    return history


def main(arguments: List[str]) -> None:
    """Serve the page until the end of the input."""
    run = names.run_dir(arguments[0])
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    token = secrets.token_urlsafe(24)
    board = Board(run, listener, token, filled(int(arguments[1]), time.time()))
    print(address(listener.getsockname()[1], token), flush=True)
    serve(Answers(run), None, [board])
    board.close()


if __name__ == "__main__":
    main(sys.argv[1:])
