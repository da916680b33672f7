"""The soak: a short form of it, and what it says when something is broken, or when it is interrupted."""
import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.soak.faults import KILL, STALL, STOP
from tests.support.daemons import ROOT
from tests.support.programs import running

pytestmark = pytest.mark.timeout_s(300)

FIGURES = ("steps", "kills", "stalls", "saves", "restores", "messages")


def begin(*options):
    return subprocess.Popen([sys.executable, "-m", "tests.soak", *map(str, options)], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=running.environment(), universal_newlines=True)


def said(process):
    """Exit code and lines, once it has ended."""
    out, _ = process.communicate()
    return process.returncode, out.splitlines()


def figures(line):
    found = dict(re.findall(r"(\w+)=(-?\d+|\?)", line))
    return {name: int(found[name]) for name in FIGURES}


def faults_in(folder):
    path = folder / "faults.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] \
        if path.exists() else []


def kinds_in(folder):
    """Kinds of faults that processes had."""
    return {fault["what"] for fault in faults_in(folder) if fault.get("pids")}


def lines_until_all_has_happened(process, folder):
    """What it says in 15 s, or longer if a kind of fault or a restore has not happened yet, as on a slow machine."""
    began = time.monotonic()
    found = []
    for line in process.stdout:
        found.append(line.rstrip("\n"))
        happened = "restores=" in line and all(figures(line).values()) and kinds_in(folder) >= {KILL, STALL, STOP}
        if happened and time.monotonic() > began + 15.0:
            break
    return found


def test_a_quarter_of_a_minute_with_all_features_and_faults_is_exact(tmp_path):
    """Ctrl-C ends it with the summary that it has at the end of its time."""
    process = begin("--hours", 1, "--seed", 7, "--every", 0.6, "--patience", 2, "--progress", 1, "--output", tmp_path)
    first = lines_until_all_has_happened(process, tmp_path)
    process.send_signal(signal.SIGINT)
    code, last = said(process)
    lines = first + last
    assert code == 0 and lines[-1].startswith("soak: ok "), "\n".join(lines)
    assert all(figures(lines[-1]).values())
    assert re.search(r" drift_kib=(-?\d+|\?) drift_trainer_kib=(-?\d+|\?)$", lines[-1])
    assert {KILL, STALL, STOP} <= kinds_in(tmp_path)
    roles = {json.loads(line)["role"] for line in (tmp_path / "samples.jsonl").read_text().splitlines()}
    assert {"supervisor", "trainer", "template", "key-0", "key-1", "table-0", "table-1", "disk-0"} <= roles
    assert (tmp_path / "samples.png").stat().st_size > 1000
    assert "said bye" in (tmp_path / "daemon.log").read_text()


def test_one_bit_of_a_row_that_changes_ends_it_with_the_seed(tmp_path):
    code, lines = said(begin("--hours", 0.02, "--seed", 11, "--every", 1, "--plant", 60, "--output", tmp_path))
    assert code == 1
    assert re.match(r"soak: FAILED seed=11 steps=\d+ .*NotAsExpectedError: .*table item.*expected.*; logs and samples: "
                    + re.escape(str(tmp_path)), lines[-1]), "\n".join(lines)
    assert "NotAsExpectedError" in (tmp_path / "trainer.log").read_text()


@pytest.mark.long
def test_ctrl_c_ends_it_with_the_same_summary(tmp_path):
    process = begin("--hours", 1, "--seed", 13, "--every", 0.5, "--patience", 2, "--progress", 2, "--output", tmp_path)
    while "steps/s" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    code, lines = said(process)
    assert code == 0 and lines[-1].startswith("soak: ok steps="), "\n".join(lines)


@pytest.mark.long
@pytest.mark.timeout_s(1200)
def test_ten_minutes_with_all_features_and_faults_are_exact_and_nothing_grows(tmp_path, seed):
    code, lines = said(begin("--hours", 1 / 6, "--seed", seed % (1 << 31), "--output", tmp_path))
    sys.stdout.write("\n".join(lines) + "\n")
    assert code == 0 and lines[-1].startswith("soak: ok "), "\n".join(lines)
    assert all(figures(lines[-1]).values())
