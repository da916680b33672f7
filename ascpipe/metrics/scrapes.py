"""HTTP server that supports only ``GET /metrics``. ``ascpipe/control/web.py`` describes its limits."""
import socket
import time
from typing import Callable

from ascpipe.control import web

PATH = "/metrics"
MAX_PEERS = 8  #: maximum number of connections, and maximum number of connections that wait to be accepted


def scrapes(listener: socket.socket, content: Callable[[], bytes], content_type: str,
            clock: Callable[[], float] = time.monotonic) -> web.Server:
    """Return a server for scrapes.

    Args:
        listener: listening socket, which ``close`` of the server closes.
        content: function that returns the body of a successful answer.
        content_type: content type of the body.
        clock: function that returns seconds.
    """

    def route(request: web.Request) -> web.Answer:
        if request.path != PATH:
            return web.refusal(404, "only GET {} is supported".format(PATH))
        if request.method != "GET":
            return web.refusal(405, "only GET {} is supported".format(PATH), ["Allow: GET"])
        return web.Answer(200, content(), content_type)

    return web.Server(listener, route, peers=MAX_PEERS, clock=clock)
