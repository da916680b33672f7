"""Equipment of every test: leak gate, hard timeout, private run directory, seeds, times per file.

A test that hangs is failed with the stacks of all threads; if the main thread cannot be interrupted (it sits in
compiled code) the whole run ends a little later, with the stacks too.
"""
import collections
import faulthandler
import os
import shutil
import signal
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from ascpipe.daemon import kernel_cache
from tests.support import leaks

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60.0
GRACE_S = 20.0  #: between the failure of a test that hangs and the end of the run
BASE_SEED = int(os.environ.get("TEST_SEED", "1"))

_failed = pytest.StashKey()
_times = collections.OrderedDict()


class TookTooLongError(BaseException):
    """A test did not end in time; no handler of ``Exception`` may swallow it."""


def pytest_configure(config):
    # A shell that starts us in the background has it ignored, and programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_home = Path(tempfile.mkdtemp(prefix="asc-", dir="/tmp"))  # short: a socket path has 107 bytes at most
    config.stash[_run_home_key] = run_home
    config.stash[_state_home_key] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="asc-state-")
    os.environ["XDG_RUNTIME_DIR"] = str(run_home)
    for name in [name for name in os.environ if name.startswith("ASCPIPE_")]:
        del os.environ[name]
    os.environ["ASCPIPE_HASH_SEED"] = str(BASE_SEED + 1)  # 0 would be another one for each daemon
    os.environ["NUMBA_CACHE_DIR"] = kernel_cache.prepare("")
    os.environ["KERNEL_LIBRARY"] = kernel_cache.library(os.environ["NUMBA_CACHE_DIR"], os.environ)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    config.stash[_stderr_key] = os.dup(2)  # fd 2 itself is captured while tests run
    signal.signal(signal.SIGALRM, _too_long(config))
    _hypothesis_profile()


def pytest_unconfigure(config):
    shutil.rmtree(str(config.stash[_run_home_key]), ignore_errors=True)
    shutil.rmtree(config.stash[_state_home_key], ignore_errors=True)
    os.close(config.stash[_stderr_key])


def _hypothesis_profile():
    try:
        import hypothesis
    except ImportError:
        return
    # Where kernels are not compiled as users have them, their results were compared with more examples before.
    once_more = "1" in (os.environ.get("NUMBA_DISABLE_JIT"), os.environ.get("NUMBA_BOUNDSCHECK"))
    hypothesis.settings.register_profile("ours", deadline=None, derandomize=True, print_blob=True, database=None,
                                         max_examples=40 if once_more else 100)
    hypothesis.settings.load_profile("ours")


_run_home_key = pytest.StashKey()
_state_home_key = pytest.StashKey()
_stderr_key = pytest.StashKey()


# ---- timeout ---------------------------------------------------------------------------------------------

def _too_long(config):
    def handler(signum, frame):
        faulthandler.dump_traceback(file=config.stash[_stderr_key], all_threads=True)
        raise TookTooLongError("not done within its limit of seconds; the stacks of all threads are on stderr")

    return handler


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    marker = item.get_closest_marker("timeout_s")
    limit_s = float(marker.args[0]) if marker else TIMEOUT_S
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=item.config.stash[_stderr_key])
    started = time.monotonic()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        file = item.nodeid.split("::")[0]
        seconds, tests = _times.get(file, (0.0, 0))
        _times[file] = (seconds + time.monotonic() - started, tests + 1)


# ---- leak gate -------------------------------------------------------------------------------------------

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.excinfo is not None and outcome.get_result().failed:
        item.stash[_failed] = item.getparent(pytest.Module).stash[_failed] = True
    outcome.get_result().sections.append(("seed", "{} (TEST_SEED={})".format(_seed_of(item), BASE_SEED)))


def _gate(node, run_home):
    """Compare before and after.  Instantiated before all other fixtures of its scope, so it ends after them."""
    before = leaks.snapshot(run_home)
    yield
    if isinstance(node, pytest.Function):
        node.funcargs.clear()  # pytest would keep the values of the fixtures, and their memory, a little longer
    found = leaks.left_behind(before, run_home, in_process=_failed not in node.stash)
    if found:
        leaks.end_processes(run_home, before.processes)
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_nothing_behind(request, run_home):
    yield from _gate(request.node, run_home)


@pytest.fixture(autouse=True)
def _test_leaves_nothing_behind(request, run_home):
    yield from _gate(request.node, run_home)


@pytest.fixture(scope="session")
def run_home(request):
    """The XDG_RUNTIME_DIR of this session: 0700, short, empty at the start and end of every test."""
    return request.config.stash[_run_home_key]


@pytest.fixture(autouse=True)
def _plain_environment(_test_leaves_nothing_behind):
    """A test that sets variables or changes the folder does it for itself only."""
    environment, folder = dict(os.environ), os.getcwd()
    yield
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


# ---- seeds and times -------------------------------------------------------------------------------------

def _seed_of(item):
    return zlib.crc32("{}:{}".format(BASE_SEED, item.nodeid).encode())


@pytest.fixture
def seed(request):
    """A number that depends on the test and on TEST_SEED only; shown when the test fails."""
    return _seed_of(request.node)


def pytest_report_header(config):
    return "seed: TEST_SEED={}, compiled kernels: {}".format(BASE_SEED,
                                                               os.environ["KERNEL_LIBRARY"] or "by numba")


def pytest_terminal_summary(terminalreporter):
    if not _times:
        return
    terminalreporter.section("seconds per file")
    for file, (seconds, tests) in sorted(_times.items(), key=lambda row: -row[1][0]):
        terminalreporter.write_line("{:8.2f}  {:4d} tests  {}".format(seconds, tests, file))
