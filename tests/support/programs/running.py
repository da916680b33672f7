"""Starts the programs of this package as processes, with small rings, and reads what they say."""
import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict, List, Tuple, Union
from unittest import mock

from tests.support.daemons import ROOT, DaemonProcess
from tests.support.forked_calls import RING_BYTES, ForkedProgram, ProgramFailedError, environment, running_server

__all__ = ["RING_BYTES", "ProgramFailedError", "environment"]
ENDS_WITHIN_S = 200.0  #: a program aborts a scenario that hangs much earlier, and says where


def begin(program: str, *scenarios: str, **settings: Any) -> "Union[ForkedProgram, subprocess.Popen[str]]":
    """A program that runs. Of programs that are forked, one runs at a time."""
    server = running_server()
    if server is not None:
        return server.begin("python", ["-m", "tests.support.programs." + program, *scenarios], ROOT,
                            environment(**settings))
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
        code, out, err = ended(program, *scenarios, ends_within_s=ends_within_s, **settings)
    if code != 0:
        raise ProgramFailedError("{} {} ended with {}\n{}\n{}".format(program, scenarios, code, out, err))
    return [json.loads(line) for line in out.splitlines()]


def ended(program: str, *scenarios: str, ends_within_s: float = ENDS_WITHIN_S, **settings: Any) -> Tuple[int, str, str]:
    """Run a program to its end: exit code, standard output and standard error.

    Raises:
        ProgramFailedError: it hung.
    """
    server = running_server()
    if server is not None:
        called = server.call("python", ["-m", "tests.support.programs." + program, *scenarios], ROOT,
                             environment(**settings))
        return called.wait(ends_within_s), called.out, called.err
    process = begin(program, *scenarios, **settings)
    try:
        out, err = process.communicate(timeout=ends_within_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, err = process.communicate()
        raise ProgramFailedError("{} {} hangs\n{}\n{}".format(program, scenarios, out, err)) from None
    return process.returncode, out, err
