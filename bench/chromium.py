"""A headless Chromium. The DevTools protocol over a pipe controls the browser, so no client library is needed."""
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
from typing import Any, Callable, Dict, Optional

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ANSWER_S = 120.0  #: time limit of an answer and of the exit
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

Told = Dict[str, Any]


class DevToolsError(Exception):
    """The page or the browser refuses a command."""


class Chromium:
    """Owner of the browser's process.

    Args:
        on_event: function that receives the session, the method and the parameters of each event of a tab.
    """

    def __init__(self, on_event: Callable[[str, str, Told], None] = lambda session, method, told: None) -> None:
        if CHROMIUM is None:
            raise RuntimeError("there is no chromium (Debian: apt-get install chromium)")
        self._on_event = on_event
        self._home = tempfile.mkdtemp(prefix="chromium-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WITH_PIPES, str(to_read), str(to_write), CHROMIUM, *_FLAGS,
             "--user-data-dir=" + self._home, "about:blank"],
            pass_fds=[to_read, to_write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env={"PATH": os.environ["PATH"], "HOME": self._home})
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._rest = b""

    @property
    def pid(self) -> int:
        """Process id of the browser, which is also the id of its process group."""
        return self._process.pid

    def call(self, method: str, parameters: Told, session: Optional[str] = None) -> Any:
        """Return the result of a command of the protocol. ``session`` is the session of a tab."""
        self._number += 1
        message: Told = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._message()
            if told.get("id") == self._number:
                if "error" in told:
                    raise DevToolsError(told)
                return told["result"]
            if "sessionId" in told and "method" in told:
                self._on_event(told["sessionId"], told["method"], told["params"])

    def open_tab(self) -> str:
        """Open an empty tab and return its session."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        return str(self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"])

    def value_of(self, script: str, session: str) -> Any:
        """Return the value of an expression in a tab. A promise is awaited."""
        found = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True},
                          session)
        if "exceptionDetails" in found:
            raise DevToolsError(found["exceptionDetails"])
        return found["result"].get("value")

    def close(self) -> None:
        """End the browser and remove its files."""
        with contextlib.suppress(TimeoutError, DevToolsError, OSError):
            self.call("Browser.close", {})  # it ends its own processes
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ANSWER_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._home, ignore_errors=True)

    def _message(self) -> Told:
        end = time.monotonic() + ANSWER_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            came = os.read(self._from, 1 << 20)
            if not came:
                raise TimeoutError("the browser has exited")
            self._rest += came
        one, self._rest = self._rest.split(b"\0", 1)
        told: Told = json.loads(one)
        return told
