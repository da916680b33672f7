"""Each case of the bench runs to its end with small sizes and leaves nothing behind.  No time is looked at."""
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import records
from bench.chromium import CHROMIUM
from tests.support import several_ranks

ROOT = Path(__file__).resolve().parents[2]
OF_RANKS = ("ranks", "ranks_cpu", "ranks_late", "exchange")
VARIANTS = {case.name: [one for one in case.variants if CHROMIUM is not None or not one.endswith("-page")]
            for case, _ in command.selected("*") if not case.missing()
            if (several_ranks.INSTALLED or case.name not in OF_RANKS) and (CHROMIUM is not None or case.name != "page")}
OF_OTHERS = ("usual_cpu", "ranks_cpu")  #: programs of `usual` and `ranks`, by another clock: that of `train_cpu`
FIRST = ["{}/{}".format(name, variants[0]) for name, variants in VARIANTS.items() if name not in OF_OTHERS]
OTHERS = ["{}/{}".format(name, variant) for name, variants in VARIANTS.items()
          for variant in variants[0 if name in OF_OTHERS else 1:] if name not in ("cells", "input")]
OF_INPUT = ["input/{}".format(variant) for variant in VARIANTS["input"][1:]]
CORNERS = ["cells/1x4096-dim-64-host", "cells/100x64-dim-16-host"]  #: some sizes of many


def check(names, path):
    """All of them in one process, and complete records of all."""
    command_line = [sys.executable, "-m", "bench", "--small", "--repeats", "1", "--json", str(path)]
    for name in names:
        command_line += ["--pattern", name]
    done = subprocess.run(command_line, cwd=str(ROOT), capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    written = records.load(str(path))
    assert [records.name_of(record) for record in written] == names
    for record in written:
        never_woke = records.name_of(record).startswith("idle/") and record["ours"] == 0  # in a second, which is right
        assert (record["ours"] > 0 or never_woke) and record["repeats"] == 1
        assert set(record["ratio"]) == set(record["peers"]) and all(ratio > 0 for ratio in record["ratio"].values())


@pytest.mark.long
@pytest.mark.timeout_s(300)
def test_the_first_variant_of_each_case_runs(tmp_path):
    check(FIRST, tmp_path / "results.json")


@pytest.mark.long
@pytest.mark.timeout_s(120)
def test_the_usual_program_runs_in_an_estimator_too(tmp_path):
    check(["usual/26x4096-estimator"], tmp_path / "results.json")


@pytest.mark.long
@pytest.mark.timeout_s(600)
def test_the_other_variants_run(tmp_path):
    check(OTHERS + CORNERS, tmp_path / "results.json")


@pytest.mark.long
@pytest.mark.timeout_s(600)
def test_the_other_variants_of_the_input_run_and_remove_their_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    check(OF_INPUT, tmp_path / "results.json")
    assert not list(tmp_path.glob("bench-data-*"))
