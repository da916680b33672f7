"""The gate around every test catches what it should, and lets through what cleans up after itself."""
import os
import re
import shutil
import subprocess
import sys

import pytest

from ascpipe import names
from tests.support import leaks, tree

LEAKY = '''
"""Each test leaves one thing behind, on purpose."""
import ctypes
import mmap
import os
import socket
import subprocess
import sys
import threading
import uuid

import pytest

KEPT = []
LIBC = ctypes.CDLL(None, use_errno=True)
SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]


def memfd(name):
    return LIBC.syscall(319 if os.uname().machine == "x86_64" else 279, name.encode(), 0)


def test_leaves_a_child():
    KEPT.append(subprocess.Popen(SLEEP))


def test_leaves_a_zombie():
    pid = os.fork()
    if pid == 0:
        os._exit(0)


def test_leaves_an_orphan():
    program = "import subprocess, sys; subprocess.Popen({!r}, start_new_session=True)".format(SLEEP)
    subprocess.run([sys.executable, "-c", program], check=True)


SHARED = "/dev/shm/asc-test-" + uuid.uuid4().hex


def test_leaves_shared_memory():
    with open(SHARED, "wb"):
        pass


def test_after_it():
    os.unlink(SHARED)  # soon: another run on this machine sees it too


def test_leaves_a_socket(run_home):
    folder = run_home / "ascpipe" / "left"
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "control.sock"))


def test_leaves_a_descriptor():
    KEPT.append(os.open(__file__ + ".txt", os.O_CREAT | os.O_RDWR))


def test_leaves_a_memfd():
    KEPT.append(memfd("left"))


def test_leaves_a_mapping():
    fd = memfd("mapped")
    os.ftruncate(fd, 4096)
    address = LIBC.mmap(None, 4096, 3, 1, fd, 0)
    KEPT.append(address)
    os.close(fd)


def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, daemon=True, name="left").start()


def test_leaves_a_native_thread():
    LIBC.prctl(15, b"asc-left", 0, 0, 0)  # names the main thread, as the ops name theirs


@pytest.mark.timeout_s(0.5)
def test_hangs():
    threading.Event().wait(60)


def test_is_the_last_and_gets_the_complaint_about_the_module():
    pass
'''

CLEAN = '''
"""Nothing here leaves anything."""
import os
import subprocess
import sys
import threading

import pytest


def test_sets_a_variable_for_itself():
    os.environ["ASCPIPE_WORKERS"] = "7"
    os.chdir("/")


def test_sees_no_variable_of_another_test():
    assert "ASCPIPE_WORKERS" not in os.environ and os.getcwd() != "/"


def test_has_its_own_run_directory(run_home):
    assert os.environ["XDG_RUNTIME_DIR"] == str(run_home) and os.stat(str(run_home)).st_mode & 0o777 == 0o700


def test_thread_that_is_about_to_end():
    threading.Timer(0.1, lambda: None).start()


def test_fails_and_keeps_its_variables():
    fd = os.open(__file__ + ".txt", os.O_CREAT | os.O_RDWR)
    assert fd < 0


@pytest.fixture
def child():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture(scope="module")
def pipe():
    ends = os.pipe()
    yield ends
    os.close(ends[0])
    os.close(ends[1])


def test_fixtures_of_every_scope_clean_up(child, pipe):
    assert child.poll() is None


def test_seed_depends_on_the_test(seed):
    assert isinstance(seed, int)


@pytest.mark.timeout_s(0.2)
def test_may_take_longer_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    threading.Event().wait(0.5)
'''

LEAVES_WITH_THE_MODULE = '''
import os

import pytest


@pytest.fixture(scope="module")
def descriptor():
    return os.open(__file__ + ".txt", os.O_CREAT | os.O_RDWR)


def test_uses_it(descriptor):
    pass
'''


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Output of a run of the tests above in a process of its own, with our equipment around them."""
    folder = tmp_path_factory.mktemp("leaky")
    for name, text in (("leaky", LEAKY), ("clean", CLEAN), ("module", LEAVES_WITH_THE_MODULE)):
        (folder / "test_{}.py".format(name)).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(tree.ROOT / "pyproject.toml"),
               "--rootdir", str(folder), "-v", str(folder)]
    done = subprocess.run(command, cwd=str(tree.ROOT), env=dict(os.environ, TEST_SETTLE_S="0.5"), timeout=50,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 1, done.stdout
    return done.stdout


def outcomes(report, test):
    return re.findall(r"::{} (\w+)".format(test), report.split("short test summary")[0])


def complaint(report, test):
    return report.split("ERROR at teardown of {} ".format(test))[1].split("\n___")[0]


@pytest.mark.parametrize("thing, words", [
    ("child", r"processes: pid \d+ .*signal.pause"),
    ("zombie", r"processes: pid \d+ zombie"),
    ("orphan", r"processes: pid \d+ .*signal.pause"),
    ("shared_memory", r"shm: /dev/shm/asc-test-"),
    ("socket", r"run files: ascpipe/left/control.sock"),
    ("descriptor", r"descriptors: descriptor \d+ -> .*test_leaky.py.txt"),
    ("memfd", r"descriptors: descriptor \d+ -> /memfd:left"),
    ("mapping", r"mappings: /memfd:mapped"),
    ("thread", r"threads: Python thread left"),
    ("native_thread", r"threads: native thread asc-left"),
])
def test_what_a_test_leaves_is_caught_and_named(report, thing, words):
    name = re.search(r"test_leaves_(?:an?_)?{}\b".format(thing), report).group(0)
    assert outcomes(report, name) == ["PASSED", "ERROR"]
    assert re.search(words, complaint(report, name))


def test_a_test_that_hangs_fails_and_the_run_continues(report):
    assert re.search("FAILED .*::test_hangs", report) and outcomes(report, "test_is_the_last\\w*")[0] == "PASSED"
    assert "TookTooLongError: not done within 0.5 s, scaled by" in report
    assert "most recent call first" in report


def test_what_a_module_s_fixture_leaves_is_caught(report):
    assert outcomes(report, "test_uses_it") == ["PASSED", "ERROR"]


@pytest.mark.parametrize("test, outcome", [
    ("test_sets_a_variable_for_itself", "PASSED"),
    ("test_sees_no_variable_of_another_test", "PASSED"),
    ("test_has_its_own_run_directory", "PASSED"),
    ("test_thread_that_is_about_to_end", "PASSED"),
    ("test_fails_and_keeps_its_variables", "FAILED"),
    ("test_fixtures_of_every_scope_clean_up", "PASSED"),
    ("test_seed_depends_on_the_test", "PASSED"),
    ("test_may_take_longer_on_a_busy_machine", "PASSED"),
])
def test_clean_tests_get_no_complaint(report, test, outcome):
    assert outcomes(report, test) == [outcome]


def test_processes_that_were_left_are_ended(report):
    pids = {int(pid) for pid in re.findall(r"processes: pid (\d+)", report)}
    assert len(pids) >= 3
    for pid in pids:
        assert not os.path.exists("/proc/{}/exe".format(pid)) or "signal.pause" not in command_of(pid)


def command_of(pid):
    with open("/proc/{}/cmdline".format(pid)) as file:
        return file.read()


def test_times_per_file_and_the_seed_are_printed(report):
    assert re.search(r"\d+\.\d\d +\d+ tests  test_clean.py", report)
    assert "TEST_SEED=1" in report


def test_a_daemon_that_serves_several_tests_is_overlooked_with_all_that_is_its_own_until_it_is_spared_no_more(run_home):
    before = leaks.snapshot(run_home)
    names.make_private_dir(names.base_dir())
    folder = run_home / "ascpipe" / "spared"
    folder.mkdir()
    (folder / "lock").touch()
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"1\n"  # its child is there
        leaks.spare(parent.pid, "spared")
        overlooked = leaks.left_behind(before, run_home, in_process=False, settle_s=0)
        leaks.spare_no_more(parent.pid)
        seen = leaks.left_behind(before, run_home, in_process=False, settle_s=0)
        parent.communicate(b"\n")
    shutil.rmtree(str(folder))
    assert overlooked == []
    assert [sentence.split(":")[0] for sentence in seen] == ["processes", "processes", "run files"]
