"""As ``tests/unit/checkpoint/test_saves_that_are_cut.py``, with a process of its own and faults of the kernel."""
import collections
import os
import re
import shutil
import subprocess
import sys

import pytest

from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints
from tests.support import checkpoints, tree
from tests.support.programs import saving

STRACE = shutil.which("strace")
pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not there to inject faults")

CALLS = ("openat", "mkdir", "mkdirat", "write", "fsync", "rename", "renameat", "renameat2", "link", "linkat",
         "unlinkat")
FAULTS = ("signal=KILL", "error=ENOSPC", "error=EIO")
STRIDE = 31


def run(folder, *options):
    """The program under strace, beside a first save; its exit status."""
    checkpoints.save(folder, 1, saving.BEFORE, dense="before")
    environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1")
    command = [STRACE, "-f", "-q", "-o", str(folder.parent / "trace"), *options, sys.executable, "-m",
               saving.__name__, str(folder), "2"]
    return subprocess.run(command, cwd=str(tree.ROOT), env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=60).returncode


def calls_of_the_second_save(tmp_path):
    """(system call, its number among those of its thread, as strace counts) of each call that the second save makes."""
    (tmp_path / "counted").mkdir()
    names = ("stat", "newfstatat", "statx")
    assert run(tmp_path / "counted" / "saved", "-e", "trace=" + ",".join(CALLS + names)) == 0
    seen, found, inside = collections.Counter(), [], False
    for line in (tmp_path / "counted" / "trace").read_text().splitlines():
        call = re.match(r"(\d+) +(\w+)\(", line)
        if saving.BEGIN in line or saving.END in line:
            inside = saving.BEGIN in line
        elif call and call.group(2) in CALLS:
            seen[call.groups()] += 1
            if inside:
                found.append((call.group(2), seen[call.groups()]))
    return found


def cut_everywhere(tmp_path, stride):
    calls = calls_of_the_second_save(tmp_path)
    assert len(calls) > 60
    cuts = [(call, number, fault) for call, number in calls for fault in FAULTS]
    results = collections.Counter()
    for index, (call, number, fault) in enumerate(cuts[::stride]):
        folder = tmp_path / str(index) / "saved"
        folder.parent.mkdir()
        run(folder, "-e", "trace=" + call, "-e", "inject={}:{}:when={}".format(call, fault, number))
        results[what_is_there(folder, fault)] += 1
        shutil.rmtree(str(folder.parent))
    return results


def what_is_there(folder, fault):
    steps = [found.step for found in complete_checkpoints(str(folder))]
    assert steps in ([1], [1, 2])
    for step in steps:
        with open_checkpoint(str(folder / "model.ckpt-{}".format(step))) as checkpoint:
            checkpoints.assert_holds(checkpoint, saving.BEFORE if step == 1 else saving.AFTER)
    hidden = [name for name in os.listdir(str(folder)) if name.startswith(".")]
    if fault != "signal=KILL" and steps == [1]:
        assert hidden == []
    checkpoints.save(folder, 3, saving.AFTER)
    assert not [name for name in os.listdir(str(folder)) if name.startswith(".")]
    return len(steps)


@pytest.mark.timeout_s(300)
def test_a_process_cut_at_its_system_calls_leaves_the_checkpoint_before_or_the_new_one(tmp_path):
    results = cut_everywhere(tmp_path, STRIDE)
    assert results[1] and results[2]


@pytest.mark.long
@pytest.mark.timeout_s(1800)
def test_a_process_cut_at_every_system_call_leaves_the_checkpoint_before_or_the_new_one(tmp_path):
    assert sum(cut_everywhere(tmp_path, 1).values()) > 180
