"""Class ``Site``, which checks requests of browsers and serves the files of the dashboard page.

The files contain no figures, so requests for files need no token. All other requests need the token of the page's
address.
"""
import hmac
import json
import os
import urllib.parse
from typing import Any, Callable, Dict, Mapping, Optional

from ascpipe.control.web import Answer, Request, refusal

HERE = os.path.dirname(os.path.abspath(__file__))
UPLOT = os.path.join(HERE, "uplot")  #: folder of the charting library, which set-up installs
TOKEN = "token"  # noqa: S105  (the name of a parameter)

_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_JS = "text/javascript; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_EVENTS = "text/event-stream"
_MOST_BYTES = 1 << 20  # maximum size of a file
_HEADERS = (
    "Content-Security-Policy: default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer", "Cross-Origin-Resource-Policy: same-origin",
    "Cache-Control: no-store")
# path of a request -> path of a file and its content type. No other path is ever opened.
_FILES = {
    "/page.js": (os.path.join(HERE, "page.js"), _JS),
    "/panels.js": (os.path.join(HERE, "panels.js"), _JS),
    "/ranks.js": (os.path.join(HERE, "ranks.js"), _JS),
    "/checkpoints.js": (os.path.join(HERE, "checkpoints.js"), _JS),
    "/charts.js": (os.path.join(HERE, "charts.js"), _JS),
    "/page.css": (os.path.join(HERE, "page.css"), _CSS),
    "/page.svg": (os.path.join(HERE, "page.svg"), "image/svg+xml"),
    "/uplot.js": (os.path.join(UPLOT, "uPlot.iife.min.js"), _JS),
    "/uplot.css": (os.path.join(UPLOT, "uPlot.min.css"), _CSS),
}
_PAGE = os.path.join(HERE, "page.html")

Query = Mapping[str, str]
Source = Callable[[Query], Optional[bytes]]  #: query -> JSON text; None: not available yet


class NotThereError(Exception):
    """A request names something that does not exist. The message of the error is sent as the answer to the request."""


class Site:
    """Class that answers the requests of browsers.

    Args:
        token: secret of the page's address.
        sources: function that returns JSON, by path such as ``"/history"``.
        events: function that returns the first event of a stream.
    """

    def __init__(self, token: str, sources: Mapping[str, Source], events: Callable[[], bytes]) -> None:
        self._token = token.encode()
        self._sources = dict(sources)
        self._events = events

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request."""
        if request.method != "GET":
            return refusal(405, "only GET is supported", ["Allow: GET", *_HEADERS])
        if request.path in _FILES:
            return _file(*_FILES[request.path])
        if request.path not in ("/", "/events") and request.path not in self._sources:
            return refusal(404, "there is no such page", _HEADERS)
        query = dict(urllib.parse.parse_qsl(request.query))
        if not hmac.compare_digest(query.get(TOKEN, "").encode(), self._token):
            return refusal(403, "the address has no token or an old one. Open the address that `ascpipe dashboard` "
                           "prints", _HEADERS)
        if request.path == "/":
            return _file(_PAGE, _HTML)
        if request.path == "/events":
            return Answer(200, self._events(), _EVENTS, _HEADERS, is_stream=True)
        return self._json(request.path, query)

    def _json(self, path: str, query: Query) -> Answer:
        try:
            found = self._sources[path](query)
        except NotThereError as error:
            return refusal(404, str(error), _HEADERS)
        return Answer(202, b'{"pending": true}', _JSON, _HEADERS) if found is None else Answer(
            200, found, _JSON, _HEADERS)


def address(port: int, token: str) -> str:
    """Return the address of the page, with the token."""
    return "http://127.0.0.1:{}/?{}={}".format(port, TOKEN, token)


def as_json(value: Any) -> bytes:
    """Return a value as JSON text without spaces. NaN is not allowed."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _file(path: str, content_type: str) -> Answer:
    try:
        with open(path, "rb") as file:
            return Answer(200, file.read(_MOST_BYTES), content_type, _HEADERS)
    except FileNotFoundError:  # without the charting library, the page shows tables
        return Answer(200, b"", content_type, _HEADERS)


def parameters(query: Query, *names: str) -> Dict[str, str]:
    """Return parameters of a query. Raise ``NotThereError`` if a parameter is missing."""
    for name in names:
        if name not in query:
            raise NotThereError("the parameter {} is missing".format(name))
    return {name: query[name] for name in names}
