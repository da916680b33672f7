"""Runs test files in the scratch tree, each by a pytest process of its own, within a limit."""
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from tests.planted_faults import outcomes
from tests.planted_faults.scratch import Scratch

MARK = "PLANTED_FAULTS_RUN"  #: environment variable by which processes are found that outlive their test
_END_S = 10.0  # for a pytest process that was killed

#: Where a fault in a kernel is looked for without the compiler: compiling kernels takes longer than the tests.
WITHOUT_COMPILER = ("tests/unit/kernels/", "tests/unit/shm/", "tests/unit/tables/", "tests/unit/workers/")


class Outcome(NamedTuple):
    """The outcome of some test files.

    Attributes:
        passed: how many tests passed.
        failed: ids of the tests that failed, in their order, each once.
        crashed: files whose process ended by a signal or without a result, as after a hang that no test limit ended.
        cut: files that did not end in time and were killed, or were not run for want of time.
        seconds: processor time of all processes that were waited for.
    """

    passed: int
    failed: List[str]
    crashed: List[str]
    cut: List[str]
    seconds: float


def run(scratch: Scratch, files: Sequence[str], *, in_kernels: bool, seed: int, limit_s: float,
        enough: int = sys.maxsize) -> Outcome:
    """Run test files one after the other, each of them whole.

    Args:
        files: paths of files, or a file's tests by their ids.
        in_kernels: the fault is in kernels; else compiled kernels are those of the tree.
        seed: TEST_SEED.
        limit_s: seconds for all files together; then the running one is killed and the others are left out.
        enough: no further file is run when so many tests have failed.
    """
    deadline, before = time.monotonic() + limit_s, _processor_time()
    passed, failed, crashed, cut = 0, [], [], []
    for file, tests in _by_file(files).items():
        if len(failed) >= enough:
            break
        left_s = deadline - time.monotonic()
        code = _run_file(scratch, tests, in_kernels=in_kernels, seed=seed, limit_s=left_s) if left_s > 0 else None
        lines = _lines(scratch)
        passed += sum(outcome == "passed" for _, outcome, _ in lines)
        failed += [test for test, outcome, _ in lines if outcome == "failed" and test not in failed]
        if code is None:
            cut.append(file)
        elif code not in (0, 1, 5) and not any(outcome == "failed" for _, outcome, _ in lines):
            crashed.append(file)
    return Outcome(passed, list(dict.fromkeys(failed)), crashed, cut, round(_processor_time() - before, 1))


def _by_file(tests: Sequence[str]) -> Dict[str, List[str]]:
    """Paths of files and ids of tests, by the path of the file."""
    found: Dict[str, List[str]] = {}
    for test in tests:
        found.setdefault(test.split("::")[0], []).append(test)
    return found


def _run_file(scratch: Scratch, tests: Sequence[str], *, in_kernels: bool, seed: int, limit_s: float) -> Optional[int]:
    """The exit code of pytest; None: it was killed after ``limit_s``."""
    mark = "{}-{}".format(os.getpid(), time.monotonic_ns())
    command = [scratch.python, "-m", "pytest", "-q", "-p", "tests.planted_faults.outcomes", "--tb=no"]
    environment = {**scratch.environment(in_kernels), outcomes.VARIABLE: str(_outcomes(scratch)), MARK: mark,
                   "TEST_SEED": str(seed)}
    if tests[0].startswith(WITHOUT_COMPILER):
        environment["NUMBA_DISABLE_JIT"] = "1"
        command += ["-W", "ignore:overflow encountered:RuntimeWarning"]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*command, *tests], cwd=str(scratch.root), env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=output, start_new_session=True)
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process, mark)


def _end(process: "subprocess.Popen[bytes]", mark: str) -> None:
    """Kill what is left of a run: its process group, and daemons in sessions of their own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(_END_S)
    wanted = "{}={}".format(MARK, mark).encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            continue  # it has ended, or belongs to another user


def _outcomes(scratch: Scratch) -> Path:
    return scratch.root.parent / "outcomes.jsonl"


def _lines(scratch: Scratch) -> List[List[str]]:
    """What the plugin wrote since the last call."""
    path = _outcomes(scratch)
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    return lines


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
