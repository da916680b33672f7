"""A table of 5 GB of rows trains in a process group that has 2 GB of memory."""
import contextlib
import json
import os
import subprocess
import sys

import pytest

from tests.support.programs.running import environment
from tests.support.tree import ROOT

CGROUPS = "/sys/fs/cgroup/memory"
KEYS, STEPS = 10_000_000, 2_000
ROW_BYTES = 4 * 2 * 64  # with its accumulator


@contextlib.contextmanager
def memory_cgroup(limit):
    """Path of a cgroup of so many bytes, without swap."""
    if not os.path.exists(os.path.join(CGROUPS, "memory.limit_in_bytes")) or not os.access(CGROUPS, os.W_OK):
        pytest.skip("no memory cgroup of version 1 can be made here (it needs root)")
    path = os.path.join(CGROUPS, "ascpipe-test-{}".format(os.getpid()))
    os.mkdir(path)
    try:
        with open(os.path.join(path, "memory.limit_in_bytes"), "w") as file:
            file.write(str(limit))
        yield path
    finally:
        os.rmdir(path)


def told_by(folder, keys, steps, limit, *checkpoint):
    """What the program prints."""
    with memory_cgroup(limit) as group:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.programs.larger_than_memory", str(folder), group, str(keys),
             str(steps), *checkpoint], cwd=str(ROOT), env=environment(), capture_output=True, text=True,
            timeout=1500)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] == 0 and told["peak"] <= limit
    assert told["off"] <= 1e-5 * told["largest"]
    assert told["state"]["disk_rows"] > KEYS - 500_000
    return told


@pytest.mark.long
@pytest.mark.timeout_s(3100)
def test_a_table_of_5_gb_of_rows_trains_in_2_gb_of_memory_which_stay_flat_and_is_saved_and_restored(tmp_path):
    limit = 2 << 30
    assert KEYS * ROW_BYTES > 5e9
    told = told_by(tmp_path, KEYS, STEPS, limit)
    assert told["trained"] == KEYS // 20_000 + STEPS
    flat = told["bytes"][-STEPS // 200:]  # each key has had its entry for long
    assert max(flat) - flat[0] <= 4 << 20, told["bytes"]
    told_by(tmp_path, KEYS, STEPS, limit, told["saved"])
