"""Starts the programs of this package as processes, with small rings, and reads what they say."""
import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict, List
from unittest import mock

from tests.support.daemons import ROOT, DaemonProcess

RING_BYTES = 8 << 20
ENDS_WITHIN_S = 200.0  #: a program aborts a scenario that hangs much earlier, and says where


class ProgramFailedError(AssertionError):
    """A program did not end well; the text is what it printed."""


def environment(**settings: Any) -> Dict[str, str]:
    """Of a program: settings of ascpipe, as ``ring_frames=2``."""
    variables = dict(os.environ, PYTHONPATH=ROOT, PYTHONFAULTHANDLER="1", ASCPIPE_RING_BYTES=str(RING_BYTES))
    variables.update(("ASCPIPE_" + name.upper(), str(value)) for name, value in settings.items())
    return variables


def begin(program: str, *scenarios: str, **settings: Any) -> "subprocess.Popen[str]":
    """A program that runs."""
    return subprocess.Popen([sys.executable, "-m", "tests.support.programs." + program, *scenarios], cwd=ROOT,
                            env=environment(**settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            universal_newlines=True)


def run(program: str, *scenarios: str, ends_within_s: float = ENDS_WITHIN_S, **settings: Any) -> List[Dict[str, Any]]:
    """Run a program to its end; what each scenario said. Several scenarios have one daemon, one after the other.

    Raises:
        ProgramFailedError: a scenario failed or hung.
    """
    if len(scenarios) == 1:
        return _run(program, *scenarios, ends_within_s=ends_within_s, **settings)
    daemon = DaemonProcess("scenarios", **{"ring_bytes": RING_BYTES, **settings})
    try:
        return _run(program, *scenarios, ends_within_s=ends_within_s, name=daemon.name, **settings)
    finally:
        daemon.end()


def _run(program: str, *scenarios: str, ends_within_s: float, **settings: Any) -> List[Dict[str, Any]]:
    with mock.patch.dict(os.environ, TEST_SCENARIO_LIMIT_S=str(ends_within_s / 2)):
        process = begin(program, *scenarios, **settings)
    try:
        out, err = process.communicate(timeout=ends_within_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, err = process.communicate()
        raise ProgramFailedError("{} {} hangs\n{}\n{}".format(program, scenarios, out, err)) from None
    if process.returncode != 0:
        raise ProgramFailedError("{} {} ended with {}\n{}\n{}".format(
            program, scenarios, process.returncode, out, err))
    return [json.loads(line) for line in out.splitlines()]
