"""Equipment of every test: leak gate, time limit, private run directory, seeds, costs.

A test that hangs fails with the stacks of all threads.  If the main thread cannot be interrupted because it runs
compiled code, the whole run ends a little later, also with the stacks.
"""
import collections
import faulthandler
import gc
import os
import shutil
import signal
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from ascpipe.daemon import kernel_cache
from tests.planted_faults import outcomes
from tests.support import costs, covering, forked_calls, leaks, patience

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 60.0  #: on an idle machine; `tests.support.patience` scales it
GRACE_S = 20.0  #: between the failure of a test that hangs and the end of the run
SUITE_VARIABLE = "TEST_SUITE"  #: name of the suite that runs; the Makefile sets it
RESULTS = ROOT / "build" / "test-results"
BASE_SEED = int(os.environ.get("TEST_SEED", "1"))

_failed = pytest.StashKey()
_costs = {}
_meter = costs.Meter()
_began = time.monotonic()


class TookTooLongError(BaseException):
    """A test did not end in time; no handler of ``Exception`` may swallow it."""


def pytest_configure(config):
    # A shell that starts us in the background has it ignored, and programs that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run_home = Path(tempfile.mkdtemp(prefix="asc-", dir="/tmp"))  # short: a socket path has 107 bytes at most
    config.stash[_run_home_key] = run_home
    config.stash[_state_home_key] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="asc-state-")
    config.stash[_suite_key] = os.environ.pop(SUITE_VARIABLE, "")  # a test that runs pytest is not this suite
    os.environ["XDG_RUNTIME_DIR"] = str(run_home)
    for name in [name for name in os.environ if name.startswith("ASCPIPE_")]:
        del os.environ[name]
    os.environ["ASCPIPE_HASH_SEED"] = str(BASE_SEED + 1)  # 0 would be another one for each daemon
    os.environ["NUMBA_CACHE_DIR"] = kernel_cache.prepare("")
    # TEST_KERNEL_LIBRARY names a library of another level, such as one of a wheel.
    os.environ["KERNEL_LIBRARY"] = os.environ.get("TEST_KERNEL_LIBRARY") or kernel_cache.library(
        os.environ["NUMBA_CACHE_DIR"], os.environ)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # TensorFlow checks for each op of a new graph whether XLA can compile it, even if XLA is off. Without the check,
    # tests in sessions take a tenth less processor time, and results are the same.
    os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_clustering_fuel=0")
    config.stash[_stderr_key] = os.dup(2)  # fd 2 itself is captured while tests run
    signal.signal(signal.SIGALRM, _too_long(config))
    _meter.install()
    _hypothesis_profile()


def pytest_collection_finish():
    """Collect garbage less often, and never scan what is imported: TensorFlow has so many objects that a collection,
    as the leak gate does, takes a tenth of a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def pytest_unconfigure(config):
    _meter.remove()
    shutil.rmtree(str(config.stash[_run_home_key]), ignore_errors=True)
    shutil.rmtree(config.stash[_state_home_key], ignore_errors=True)
    os.close(config.stash[_stderr_key])


def _hypothesis_profile():
    try:
        import hypothesis
    except ImportError:
        return
    hypothesis.settings.register_profile("ours", deadline=None, derandomize=True, print_blob=True, database=None,
                                         max_examples=covering.example_count(10 if _is_run_once_more() else 25, 200))
    hypothesis.settings.load_profile("ours")
    # At its first use it makes a source of random numbers, which must be there before garbage is frozen.
    hypothesis.find(hypothesis.strategies.none(), lambda _: True)


def _is_run_once_more():
    """Whether kernels are not compiled as users have them: their results are compared with more examples elsewhere.

    Planted faults of kernels are tried without the compiler alone, so there it is no second run.
    """
    if outcomes.VARIABLE in os.environ:
        return False
    return "1" in (os.environ.get("NUMBA_DISABLE_JIT"), os.environ.get("NUMBA_BOUNDSCHECK"))


_run_home_key = pytest.StashKey()
_state_home_key = pytest.StashKey()
_stderr_key = pytest.StashKey()
_suite_key = pytest.StashKey()  #: name of the suite; empty if only a part of one runs
_limit_key = pytest.StashKey()  #: when the running test started, and its limit in seconds


# ---- time limit ---------------------------------------------------------------------------------------------

def _too_long(config):
    def handler(signum, frame):
        started, limit_s = config.stash[_limit_key]
        left_s = limit_s * patience.current() - (time.monotonic() - started)
        if left_s > 0:  # other processes use the machine, and the test may just be slow
            _arm(config, left_s)
            return
        faulthandler.dump_traceback(file=config.stash[_stderr_key], all_threads=True)
        raise TookTooLongError("not done within {:g} s, scaled by {:.1f} for the load of this machine; the stacks of "
                               "all threads are on stderr".format(limit_s, patience.current()))

    return handler


def _arm(config, seconds):
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds * patience.current() + GRACE_S, exit=True,
                                      file=config.stash[_stderr_key])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    marker = item.get_closest_marker("timeout_s")
    limit_s = float(marker.args[0]) if marker else TIMEOUT_S
    item.config.stash[_limit_key] = time.monotonic(), limit_s
    _arm(item.config, limit_s)
    try:
        yield from _meter.measured(_costs, item.nodeid.split("::")[0])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


# ---- which cases are long ---

@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items):
    products = collections.defaultdict(list)
    for item in items:
        if _is_run_once_more() and item.get_closest_marker("long_once_more"):
            item.add_marker(pytest.mark.long)
        if item.get_closest_marker("each_value") and not item.get_closest_marker("long"):
            products[item.nodeid.split("[")[0]].append(item)
    for cases in products.values():
        chosen = covering.diagonal([_values_of(case) for case in cases])
        for number, case in enumerate(cases):
            if number not in chosen:
                case.add_marker(pytest.mark.long)


def _values_of(case):
    """One value for each `parametrize` of a case; values are told apart by identity, since many are unhashable."""
    axes = [marker.args[0] for marker in case.iter_markers("parametrize")]
    names = [[name.strip() for name in (axis.split(",") if isinstance(axis, str) else axis)] for axis in axes]
    return [tuple(id(case.callspec.params[name]) for name in axis) for axis in names]


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
    if dict(os.environ) != environment:  # it is rarely changed, and takes a millisecond to write
        os.environ.clear()
        os.environ.update(environment)


# ---- programs that are forked ---

@pytest.fixture(scope="session")
def fork_server(tmp_path_factory):
    """A process that has imported TensorFlow. A module that asks for it does so from its first test on."""
    with forked_calls.ForkServer("forked_ranks", tmp_path_factory.mktemp("forked")) as server:
        leaks.overlook(server.pid)
        yield server


@pytest.fixture(scope="module")
def forked_programs(fork_server):
    """Programs that tests of this module run to their end are forked from one that has imported TensorFlow."""
    with forked_calls.used(fork_server):
        yield


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


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[_suite_key]:
        outcomes = {outcome: len(terminalreporter.stats.get(outcome, ())) for outcome in costs.OUTCOMES}
        costs.write(RESULTS, costs.Result(config.stash[_suite_key], outcomes,
                                          costs.of_process(time.monotonic() - _began), _costs))
    if _costs:
        terminalreporter.section("seconds and processor seconds per file")
    for file, cost in sorted(_costs.items(), key=lambda row: -row[1].processor_s):
        terminalreporter.write_line("{:8.2f}{:8.2f}  {:4d} tests  {}".format(
            cost.wall_s, cost.processor_s, cost.tests, file))
