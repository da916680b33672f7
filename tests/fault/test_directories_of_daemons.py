"""Directories of a daemon that others have taken, that are full or read-only: it works, or says what is wrong where."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

from ascpipe import names
from ascpipe.control import client, messages, trainer_link
from ascpipe.daemon import kernel_cache, warm_up
from ascpipe.errors import AscpipeError, RunDirError
from tests.fault.test_row_files import skip_without
from tests.support import tree
from tests.support.covering import some
from tests.support.daemons import LAYOUT, DaemonProcess, use_standins

pytestmark = pytest.mark.timeout_s(120)

US, OTHER = 54321, 54322  # users that this machine does not know
AT_WORK = ["key", "table"]


def skip_unless_root():
    if os.geteuid() != 0:
        pytest.skip("only root can be other users")


def apart(*lines):
    """Run lines of sh in a mount namespace of their own; what the last one printed."""
    skip_without("unshare", "mount")
    done = subprocess.run(["unshare", "-m", "sh", "-ec", "\n".join(lines)], cwd=str(tree.ROOT), timeout=100,
                          env=dict(os.environ, ASCPIPE_RING_BYTES=str(1 << 20)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def session(*lines):
    """What became of a session after ``lines``."""
    return json.loads(apart(*lines, "{} -m tests.support.programs.served_session".format(sys.executable)))


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A folder of compiled kernels that has nothing but their library; that folder and its parent."""
    warm = warm_up.warm_up("")
    if warm.unlinked:
        pytest.skip("no library of kernels can be made here: " + warm.unlinked)
    name = kernel_cache.library_name()
    folder = kernel_cache.prepare(str(tmp_path / "cache"))
    shutil.copy(os.path.join(warm.folder, name), folder)
    kernel_cache.seal(folder)
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    return folder, str(tmp_path / "cache")


# ---- others may change them, or have taken them

@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_kernels_below_a_folder_that_others_may_write_to_are_not_loaded(mode, tmp_path, monkeypatch):
    kernel_cache.prepare(str(tmp_path / "shared" / "cache"))
    (tmp_path / "shared").chmod(mode)
    use_standins(monkeypatch)
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "shared" / "cache"))
    refused = r"E214.*/shared cannot be used: others may write to it \(mode {:o}\)".format(mode)
    with pytest.raises(RunDirError, match=refused):
        DaemonProcess("unit")


def squat(path, how):
    """Take the place of a run directory as another user."""
    if how == "file":
        with open(path, "w"):
            pass
    elif how == "link":
        os.symlink("/var", path)
    else:
        os.mkdir(path)
        os.chmod(path, how)
    os.lchown(path, OTHER, OTHER)


@pytest.fixture
def open_folder():
    """That every user may look into, as those of ``tmp_path`` are not."""
    made = tempfile.mkdtemp(dir="/tmp")
    os.chmod(made, 0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("how", [0o700, 0o777, "file", "link"])
def test_a_run_directory_that_another_user_has_taken_is_an_error_with_a_code_whatever_is_asked(how, open_folder):
    skip_unless_root()
    taken = os.path.join(open_folder, "taken")
    squat(taken, how)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ.pop("XDG_RUNTIME_DIR")
            names.base_dir = lambda: taken
            os.setgid(US)
            os.setuid(US)
            os.write(writing, "\n".join(answers()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading) as file:
        said = file.read().splitlines()
    assert os.waitpid(pid, 0)[1] == 0
    assert [line[:4] for line in said] == ["E214"] * 4, said
    assert all("taken cannot be used: it " in line for line in said)


def answers():
    """The error of each way to meet a daemon."""
    for ask in (lambda: client.ask(names.run_dir("unit"), messages.Status()), client.running_daemons,
                lambda: trainer_link.connect("unit", layout=LAYOUT),
                lambda: names.make_private_dir(names.base_dir())):
        try:
            ask()
        except AscpipeError as error:
            yield str(error)


@pytest.mark.parametrize("how", some(
    ["mkdir -m 700 $taken", "mkdir -m 777 $taken", "touch $taken", "ln -s /var $taken"],
    "mkdir -m 777 $taken", "ln -s /var $taken"))
def test_what_the_error_of_a_taken_run_directory_says_works(how, library):
    """In a /tmp that this namespace alone has, so that no daemon of this user is met."""
    skip_unless_root()
    ascpipe = "{} -m ascpipe".format(sys.executable)
    # The new /tmp may hide the compiled kernels, so they are mounted elsewhere.
    inside = ("mount --bind {} /mnt".format(library[1]), "export ASCPIPE_CACHE_DIR=/mnt",
              "mount -t tmpfs -o mode=1777 tmpfs /tmp", "unset XDG_RUNTIME_DIR", "taken=/tmp/ascpipe-0", how,
              "chown -h {0}:{0} $taken".format(OTHER))
    refused = apart(*inside, ascpipe + " start --name unit 2>&1 || true")
    assert re.search("E214: Directory /tmp/ascpipe-0 cannot be used: it (belongs|is)", refused)
    told = session(*inside)
    assert re.search("E214: Directory /tmp/ascpipe-0 cannot be used: it (belongs|is)", told["error"])
    advice = re.search("`(export XDG_RUNTIME_DIR=.*)`", refused).group(1)
    verbs = ("start", "status --json > /tmp/status", "stop")
    status = apart(*inside, advice, *("ASCPIPE_NAME=unit {} {}".format(ascpipe, verb) for verb in verbs),
                   "tr -d '\\n' < /tmp/status")
    assert json.loads(status)["state"] == "idle"
    assert session(*inside, advice)["attached"] == AT_WORK


# ---- full, or read-only

def test_a_warm_cache_on_a_file_system_that_is_read_only_serves(library):
    told = session("mount --bind {0} {0}".format(library[1]), "mount -o remount,ro,bind {}".format(library[1]))
    assert (told["attached"], told["error"]) == (AT_WORK, None)


def test_a_cold_cache_on_a_file_system_that_is_read_only_is_named(library):
    os.unlink(os.path.join(library[0], kernel_cache.library_name()))
    told = session("mount --bind {0} {0}".format(library[1]), "mount -o remount,ro,bind {}".format(library[1]))
    assert re.search("E214: Directory {} cannot be used: .*ascpipe warmup.*Read-only file system".format(library[0]),
                     told["error"])


def run_in(options, *lines):
    """What became of a session whose run directory lies in a file system with these options."""
    return session("mount -t tmpfs -o mode=700,{} tmpfs $XDG_RUNTIME_DIR".format(options), *lines)


def test_a_run_directory_that_cannot_have_enough_files_is_named_and_logs_of_workers_are_done_without():
    seen = []
    for files in (1, 3, 6, 8, 14):
        told = run_in("nr_inodes={}".format(files))
        assert told["attached"] == AT_WORK or re.match(
            r"E223: There is no space for /tmp/asc-\S+: No space left on device; .* \d+ of {} files".format(files),
            told["error"]), (files, told["error"])
        seen.append(bool(told["attached"]))
    assert seen == sorted(seen) and {False, True} == set(seen)


def test_a_run_directory_that_is_full_is_named():
    told = run_in("size=64k", "dd if=/dev/zero of=$XDG_RUNTIME_DIR/filler bs=4k 2>/dev/null || true")
    assert re.match(r"E223: There is no space for /tmp/asc-\S+: No space left on device; 0\.0 of 0\.1 MiB",
                    told["error"])


def full(folder, size):
    """Lines that make a file system of ``size`` in the place of a folder, with what is in it, and fill it up."""
    return ("kept=$(mktemp -d)", "cp -a {}/. $kept".format(folder),
            "mount -t tmpfs -o mode=700,size={} tmpfs {}".format(size, folder), "cp -a $kept/. {}".format(folder),
            "rm -r $kept", "dd if=/dev/zero of={}/filler bs=4k 2>/dev/null || true".format(folder))


def test_a_warm_cache_on_a_disk_that_is_full_serves(library):
    told = session(*full(library[0], "2m"))
    assert (told["attached"], told["error"], told["restarts"]) == (AT_WORK, None, 0)


def test_a_cold_cache_on_a_disk_that_is_full_is_named_and_no_worker_is_started_again(library):
    os.unlink(os.path.join(library[0], kernel_cache.library_name()))
    told = session(*full(library[0], "1m"))
    assert re.search(r"E223: There is no space for {}: .*No space left on device; 0\.0 of 1\.0 MiB".format(library[0]),
                     told["error"]), told


def test_a_shared_memory_folder_that_is_read_only_is_done_without():
    told = session("mount -t tmpfs tmpfs /dev/shm", "mount -o remount,ro /dev/shm")
    assert (told["attached"], told["error"], told["memfd"]) == (AT_WORK, None, True)
