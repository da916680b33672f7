"""Real daemons with stand-in workers, for tests of the control plane."""
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil

from ascpipe import names
from ascpipe.control import launch, messages, trainer_link
from ascpipe.control.client import ask
from ascpipe.errors import NotRunningError
from ascpipe.layout import structs
from tests.support import leaks
from tests.support.waiting import wait_until

ROOT = str(Path(__file__).resolve().parent.parent.parent)
STANDIN = "tests.support.standin_daemon"
LAYOUT = structs.layout_hash()
RING_BYTES = 1 << 20


def use_standins(monkeypatch):
    """Daemons that this test starts have stand-in workers and small rings."""
    monkeypatch.setattr(launch, "MODULE", STANDIN)
    monkeypatch.setenv("PYTHONPATH", ROOT)
    monkeypatch.setenv("ASCPIPE_RING_BYTES", str(RING_BYTES))


@contextlib.contextmanager
def daemon_with(**options):
    """A daemon named ``unit`` with these settings, which ends with the block."""
    daemon = DaemonProcess("unit", **options)
    try:
        yield daemon
    finally:
        daemon.end()


def small_session(*table_names):
    """One training stream over tables of 100 rows, and an evaluation stream over the first."""
    tables = [messages.Table(number, name, 4, 100) for number, name in enumerate(table_names or ("user",))]
    return ([messages.Stream(0, 0, tuple(range(len(tables)))), messages.Stream(1, 1, (0,))], tables)


@contextlib.contextmanager
def serving(daemon):
    """The link of a trainer, this process, whose small session a daemon serves."""
    link = trainer_link.connect(daemon.name, layout=LAYOUT)
    try:
        link.start(*small_session())
        daemon.wait_attached()
        yield link
    finally:
        link.close()


class DaemonProcess:
    """A daemon that ran a moment ago; ``end`` is safe to call twice. One that is ``spared`` serves several tests."""

    def __init__(self, name="unit", *, spared=False, as_it_begins=lambda pid: None, **options):
        launching = launch.Launching(name, options=options)
        as_it_begins(launching._process.pid)
        self._launched = launching.wait()
        self.pid, self.name, self.run = self._launched.pid, name, names.run_dir(name)
        if spared:
            leaks.spare(self.pid, name)

    def status(self):
        return ask(self.run, messages.Status())

    def workers(self, kind=None):
        return [worker for worker in self.status()["workers"] if kind in (None, worker["kind"])]

    def wait_attached(self):
        wait_until(lambda: all(worker["attached"] for worker in self.workers()))
        return {(worker["kind"], worker["index"]): worker for worker in self.workers()}

    def log(self):
        return Path(self.run.log).read_text()

    def wait(self):
        return self._launched.process.wait(20)

    def end(self):
        try:
            ask(self.run, messages.Stop())
        except NotRunningError:
            pass
        self.wait()
        for name in self.run.files() if os.path.isdir(self.run.path) else []:
            os.unlink(os.path.join(self.run.path, name))
        if os.path.isdir(self.run.path) and not os.listdir(self.run.path):
            os.rmdir(self.run.path)
        leaks.spare_no_more(self.pid)


def start_trainer(daemon="-", *options):
    """A stand-in trainer with a session; (its process, what it told)."""
    process = subprocess.Popen([sys.executable, "-m", "tests.support.standin_trainer", daemon, *options],
                               stdout=subprocess.PIPE, cwd=ROOT)
    line = process.stdout.readline()
    process.stdout.close()
    return process, json.loads(line.decode())


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
