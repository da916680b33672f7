"""Tabs of a headless Chromium, with the errors of their pages."""
import base64
import contextlib
import json

from bench.chromium import CHROMIUM, Chromium, DevToolsError
from tests.support import leaks
from tests.support.waiting import NeverHappenedError, wait_until

__all__ = ["CHROMIUM", "Browser", "DevToolsError", "Page"]


class Page:
    """A tab. ``errors`` are the texts of console errors, failed requests and uncaught exceptions."""

    def __init__(self, browser, session):
        self._browser, self._session = browser, session
        self.errors = []
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        """The result of a command of the protocol."""
        return self._browser.call(method, parameters, self._session)

    def run(self, script):
        """The value of an expression in the page; a promise is awaited."""
        return self._browser.value_of(script, self._session)

    def until(self, script):
        """The first value of an expression that is true. The page may be loading."""
        def look():
            with contextlib.suppress(DevToolsError):
                return self.run(script)

        try:
            return wait_until(look, timeout_s=90.0)
        except NeverHappenedError as error:
            raise AssertionError("{}; errors of the page: {}".format(script, self.errors)) from error

    def resize(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key], **text)

    def picture(self, selector=None):
        """A PNG of an element, or of the visible part of the page."""
        clip = {}
        if selector is not None:
            box = self.run("(() => {{ const box = document.querySelector({}).getBoundingClientRect(); return [box.left"
                           " + scrollX, box.top + scrollY, box.width, box.height]; }})()".format(json.dumps(selector)))
            clip = {"clip": dict(zip(("x", "y", "width", "height", "scale"), [*box, 1])), "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"])

    def note(self, method, told):
        """Keep an event that is an error."""
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert", "warning"):
            self.errors.append(json.dumps(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append("{text} {url}".format(**{"url": "", **told["entry"]}))


class Browser(Chromium):
    """Browser of a module of tests. ``open`` makes tabs."""

    def __init__(self):
        self._pages = {}
        super().__init__(self._note)
        leaks.spare(self.pid, "of-no-daemon")  # it serves several tests

    def open(self, address):
        session = self.open_tab()
        page = self._pages[session] = Page(self, session)
        page.call("Page.navigate", url=address)
        return page

    def close(self):
        super().close()
        leaks.spare_no_more(self.pid)

    def _note(self, session, method, told):
        if session in self._pages:
            self._pages[session].note(method, told)
