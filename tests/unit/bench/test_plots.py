"""Pictures are drawn of what the files have, and say what they show."""
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import plots, records
from bench.usual_model import PLAIN
from bench.usual_sides import NAMES

ROOT = Path(__file__).resolve().parents[3]

COMMON = dict.fromkeys(records.FIELDS)


def record(case, variant, unit, ours, peers, contender="ours"):
    return dict(COMMON, case=case, unit=unit, ours=ours, peers=peers,
                params={"variant": variant, "contender": contender})


RESULTS = [
    record("dedup", "uniform", "s per id", 1e-8, {"tf.unique": 1e-7}),
    record("train", "device", "s per step", .02, {"plain": .05}),
    record("usual", "26x4096", "s per step", .02, {"plain": .03}),
    record("scale", "rows", "s per batch", .001, {"1,000 rows": .002}, contender="100 rows"),
    record("status", "text", "s per call", .1, {}),
    dict(record("cells", "26x4096-dim-16-host", "s per step", .02, {NAMES[PLAIN]: .025}), ratio={NAMES[PLAIN]: 1.25},
         goal=[]),
]
CACHES = [{"window": window, "misses": 110 - window, "misses_lru": 200, "misses_lfu": 150, "misses_min": 100}
          for window in (10, 4)]
TRACE = {"traceEvents": [
    {"ph": "M", "name": "process_name"}, {"ph": "X", "cat": "Op", "name": "MatMul", "dur": 3000, "ts": 1},
    {"ph": "X", "cat": "Op", "name": "MatMul", "dur": 1000, "ts": 1},
    {"ph": "X", "cat": "ascpipe", "name": "plan 4", "dur": 9000, "ts": 1}]}


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    return write


def test_each_kind_of_file_gives_its_pictures(written, tmp_path):
    """In a process of its own: matplotlib keeps its fonts open."""
    folder = tmp_path / "pictures"
    caches = [written("a.json", CACHES[0]), written("b.json", CACHES[1])]
    calls = [["--results", written("results.json", {"records": RESULTS}), "--cache", *caches,
              "--trace", "plain=" + written("t.json", TRACE), "--output", str(folder), "--format", "svg"],
             ["--cache", *caches, "--output", str(tmp_path)]]
    code = "import sys\nfrom bench import plots\nsys.exit(any([plots.main(call) for call in {!r}]))".format(calls)
    done = subprocess.run([sys.executable, "-c", code], cwd=str(ROOT), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    texts = {path.stem: path.read_text() for path in folder.iterdir()}
    assert set(texts) == {"stages", "steps", "scale", "misses", "breakdown", "cells"}
    assert sorted(done.stdout.split()) == sorted([*map(str, folder.iterdir()), str(tmp_path / "misses.png")])
    for name, words in {
            "stages": ["dedup/uniform: tf.unique", "million ids per second"],
            "steps": ["train/device: ours", "usual/26x4096: plain"],
            "scale": ["ms to plan a batch"], "misses": ["Belady's optimum", "LRU"],
            "breakdown": ["MatMul", "plain"],
            "cells": ["dim 16, host: x plain TensorFlow", "1.25", "rows of a batch", "4,096"]}.items():
        assert all(word in texts[name] for word in words), name
    assert "status" not in texts["stages"]
    assert (tmp_path / "misses.png").read_bytes().startswith(b"\x89PNG")


def test_ops_of_a_kind_are_summed_small_ones_are_one_part_and_work_of_workers_is_left_out():
    assert plots.parts_of_step(TRACE) == {"MatMul": 4.0}
    many = {"traceEvents": [{"ph": "X", "cat": "Op", "name": "Op{}".format(number), "dur": 1000 * (number + 1)}
                            for number in range(12)]}
    parts = plots.parts_of_step(many)
    assert len(parts) == 11 and parts["others"] == 3.0


@pytest.mark.parametrize("content", ["no map", {"records": 3}])
def test_a_file_that_holds_something_else_is_a_usage_error(written, content):
    with pytest.raises(SystemExit) as stopped:
        plots.main(["--results", written("results.json", content)])
    assert stopped.value.code == 2


def test_nothing_to_draw_is_a_usage_error():
    with pytest.raises(SystemExit) as stopped:
        plots.main([])
    assert stopped.value.code == 2
