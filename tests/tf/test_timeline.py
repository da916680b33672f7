"""What workers did and when, in one trace with TensorFlow's own: by one clock, and ahead of the step."""
import json
import time

import numpy as np
import tensorflow as tf
from click.testing import CliRunner
from tensorflow.python.client import timeline as tf_timeline

from ascpipe.cli.main import main
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from tests.tf import one_table, programs

STEPS_BEFORE = 3


def write_timeline(*options):
    name = Process.current().running_pipeline().link.status()["name"]
    return CliRunner().invoke(main, ["timeline", "--name", name, *options])


def traced_step(run, program):
    metadata = tf.compat.v1.RunMetadata()
    run.run(program.train, options=tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE),
            run_metadata=metadata)
    return tf_timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()


def test_the_work_of_later_batches_lies_beside_a_step_in_one_trace(monkeypatch, tmp_path):
    monkeypatch.setenv("ASCPIPE_TIMELINE_SPANS", "500")
    began_us = time.time() * 1e6
    batches = [one_table.batch(*np.arange(20) + number) for number in range(12)]
    with one_table.one_table(batches, [0]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for _ in range(STEPS_BEFORE):
                program.take()
            (tmp_path / "step.json").write_text(traced_step(run, program))
            done = write_timeline("--output", str(tmp_path / "all.json"), "--merge", str(tmp_path / "step.json"))
            assert (done.exit_code, done.output.split(";")[0]) == (0, "ascpipe: {} events in {}".format(
                len(json.loads((tmp_path / "all.json").read_text())["traceEvents"]), tmp_path / "all.json"))
    events = json.loads((tmp_path / "all.json").read_text())["traceEvents"]
    theirs = json.loads((tmp_path / "step.json").read_text())["traceEvents"]
    ours = [event for event in events if event.get("cat") == "ascpipe"]
    assert events[:len(theirs)] == theirs
    assert all(began_us <= event["ts"] <= time.time() * 1e6 and event["dur"] > 0 for event in ours)
    step_ends = max(event["ts"] + event.get("dur", 0) for event in theirs if "ts" in event)
    before = [event["name"] for event in ours if event["ts"] < step_ends]
    assert newest(before, "plan") >= STEPS_BEFORE + 1
    assert newest(before, "deduplicate") > STEPS_BEFORE + 1, "nothing was done ahead"


def newest(names, what):
    """The newest batch that this was done to."""
    return max(int(part.split()[1]) for name in names for part in name.split(", ") if part.split()[0] == what)


def test_a_daemon_that_keeps_no_spans_says_how_it_would(tmp_path):
    with one_table.one_table([one_table.batch(1)], [1]):
        start_asc_pipeline()
        done = write_timeline("--output", str(tmp_path / "trace.json"))
    assert done.exit_code == 2
    assert "E402" in done.output and "ASCPIPE_TIMELINE_SPANS=20000" in done.output
