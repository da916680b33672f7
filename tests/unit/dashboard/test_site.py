"""Which requests the page's server answers, and with which headers."""
import pytest

from ascpipe.control.web import Request
from ascpipe.dashboard import site

TOKEN = "a" * 32


@pytest.fixture
def page():
    def hot(query):
        if query.get("table") != "user":
            raise site.NotThereError("there is no such table")
        return None if "later" in query else b'{"keys": []}'

    return site.Site(TOKEN, {"/hotkeys": hot}, lambda: b"data: {}\n\n")


def get(page, path, query="", method="GET"):
    return page.answer(Request(method, path, query))


WITH_TOKEN = "token=" + TOKEN


@pytest.mark.parametrize("path", ["/", "/events", "/hotkeys"])
@pytest.mark.parametrize("query", ["", "token=", "token=" + TOKEN[1:], "token=" + TOKEN + "b", "Token=" + TOKEN,
                                   "token=%C3%A4", "table=user"])
def test_figures_need_the_token(page, path, query):
    answer = get(page, path, query)
    assert answer.status == 403 and b"ascpipe dashboard" in answer.body


@pytest.mark.parametrize("path", ["/page.html", "/../setup.py", "/..%2fsetup.py", "/uplot/../page.js", "//page.js",
                                  "/uplot/LICENSE", "/page.js/", "/hotkeys/", "/site.py", "/etc/passwd", ""])
def test_no_other_path_is_served(page, path):
    assert get(page, path, WITH_TOKEN).status == 404


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "OPTIONS", "get"])
def test_only_get_is_answered(page, method):
    answer = get(page, "/", WITH_TOKEN, method)
    assert answer.status == 405 and "Allow: GET" in answer.headers


@pytest.mark.parametrize("path, content_type", [
    ("/", "text/html"), ("/page.css", "text/css"),
    ("/page.js", "text/javascript"), ("/charts.js", "text/javascript"), ("/panels.js", "text/javascript"),
    ("/uplot.js", "text/javascript"), ("/uplot.css", "text/css"), ("/page.svg", "image/svg+xml"),
    ("/events", "text/event-stream")])
def test_files_have_types_and_are_not_kept(page, path, content_type):
    answer = get(page, path, WITH_TOKEN)
    assert answer.status == 200 and answer.content_type.startswith(content_type)
    assert answer.is_stream == (path == "/events")
    headers = dict(header.split(": ", 1) for header in answer.headers)
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_what_is_not_ready_or_not_there_is_told_apart(page):
    assert get(page, "/hotkeys", WITH_TOKEN + "&table=user").body == b'{"keys": []}'
    assert get(page, "/hotkeys", WITH_TOKEN + "&table=user&later=1").status == 202
    assert get(page, "/hotkeys", WITH_TOKEN + "&table=item").status == 404


def test_without_the_charting_library_its_files_are_empty(page, monkeypatch):
    monkeypatch.setitem(site._FILES, "/uplot.js", ("/nothing/uPlot.js", "text/javascript"))
    answer = get(page, "/uplot.js")
    assert answer.status == 200 and answer.body == b""
