"""A headless Chromium, driven by its DevTools protocol over a pipe, so that no client library is needed."""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.support import leaks
from tests.support.waiting import NeverHappenedError, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ANSWER_S = 120.0
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
          "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--mute-audio",
          "--hide-scrollbars", "--force-device-scale-factor=1", "--remote-debugging-pipe"]

_WITH_PIPES = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for number, pipe in enumerate(pipes, 3):  # the browser reads from descriptor 3 and writes to 4
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class DevToolsError(Exception):
    """The page or the browser refuses a command."""


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
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise DevToolsError(found["exceptionDetails"])
        return found["result"].get("value")

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


class Browser:
    """Owner of the process. ``open`` makes tabs."""

    def __init__(self):
        self._home = tempfile.mkdtemp(prefix="chromium-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WITH_PIPES, str(to_read), str(to_write), CHROMIUM, *_FLAGS,
             "--user-data-dir=" + self._home, "about:blank"],
            pass_fds=[to_read, to_write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env={"PATH": os.environ["PATH"], "HOME": self._home})
        leaks.spare(self._process.pid, "of-no-daemon")  # it serves several tests
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest, self._pages = 0, b"", {}

    def open(self, address):
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        page.call("Page.navigate", url=address)
        return page

    def call(self, method, parameters, session=None):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == self._number:
                if "error" in told:
                    raise DevToolsError(told)
                return told["result"]
            page = self._pages.get(told.get("sessionId"))
            if page is not None and "method" in told:
                page.note(told["method"], told["params"])

    def _message(self):
        end = time.monotonic() + ANSWER_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            came = os.read(self._from, 1 << 20)
            assert came, "the browser has exited"
            self._rest += came
        one, self._rest = self._rest.split(b"\0", 1)
        return json.loads(one)

    def close(self):
        with contextlib.suppress(AssertionError, DevToolsError, OSError):
            self.call("Browser.close", {})  # it ends its own processes
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ANSWER_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        leaks.spare_no_more(self._process.pid)
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._home, ignore_errors=True)
