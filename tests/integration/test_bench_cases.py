"""Each case of the bench runs to its end and leaves nothing behind.  What it measures is not looked at."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.harness import LEAST_REPEATS

ROOT = Path(__file__).resolve().parents[2]
FIRST_VARIANTS = sorted({case.name: "{}/{}".format(case.name, case.variants[0])
                         for case, _ in command.selected("*")}.values())


@pytest.mark.long
@pytest.mark.timeout_s(600)
@pytest.mark.parametrize("name", FIRST_VARIANTS)
def test_the_case_runs_and_compares_ours_with_a_baseline(tmp_path, name):
    path = tmp_path / "results.json"
    done = subprocess.run([sys.executable, "-m", "bench", "--pattern", name, "--json", str(path)], cwd=str(ROOT),
                          capture_output=True, text=True, timeout=580)
    assert done.returncode == 0, done.stderr
    result, = json.loads(path.read_text())["results"]
    assert result["name"] == name
    assert result["timing"]["repeats"] == LEAST_REPEATS
    assert result["timing"]["median_s"] > 0
    assert result["baselines"] and all(compared["ratio"] > 0 for compared in result["baselines"].values())
