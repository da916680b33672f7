"""`ascpipe plan --program` reads the tables of real programs, which train no step and start no daemon."""
import json
import os
import subprocess
import sys

import pytest

from ascpipe.control.client import running_daemons
from tests.support.ascend_programs import PROGRAMS, QUIET, environment_with

pytestmark = pytest.mark.timeout_s(240)

PROGRAM = """\
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import ascpipe.tf as asc

tf.disable_v2_behavior()
asc.init()
ids = np.arange(64, dtype=np.int64)
data = tf.data.Dataset.from_tensor_slices({"user": ids, "item": ids}).repeat().batch(8).prefetch(8)
batch = tf.data.make_one_shot_iterator(data).get_next()
zeros = tf.zeros_initializer()
user = asc.create_table("user", dim=4, device_vocabulary_size=1000, initializer=zeros)
item = asc.create_table("item", dim=8, device_vocabulary_size=100, host_vocabulary_size=2000,
                        ssd_vocabulary_size=50000, ssd_data_path=[sys.argv[1]], initializer=zeros)
rows = [asc.sparse_lookup(user, batch["user"]), asc.sparse_lookup(item, batch["item"])]
train = asc.optimizers.Adagrad(0.1).minimize(sum(tf.reduce_sum(tf.square(each)) for each in rows))
asc.start()
with tf.train.MonitoredSession() as session:
    session.run(train)
    print("TRAINED A STEP")
"""


def plan(*arguments, **variables):
    return subprocess.run([sys.executable, "-m", "ascpipe", "plan", *map(str, arguments)],
                          env=environment_with(**QUIET, **variables), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=200)


def tables_of(done):
    assert done.returncode == 0, done.stderr
    return {table["name"]: table for table in json.loads(done.stdout)["tables"]}


def test_a_program_with_tables_is_planned_without_a_step_or_a_daemon(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    before = len(running_daemons())
    done = plan("--json", "--program", program, "--", tmp_path)
    tables = tables_of(done)
    assert (tables["user"]["row_bytes"], tables["user"]["device_bytes"]) == (32, 32000)  # with Adagrad's slot
    assert (tables["item"]["keys"], tables["item"]["directories"]) == (52000, [str(tmp_path)])
    assert "TRAINED" not in done.stderr + done.stdout and len(running_daemons()) == before
    assert os.listdir(str(tmp_path)) == ["train.py"]


@pytest.mark.skipif(sys.version_info >= (3, 8), reason="the program is for TensorFlow 1.15")
@pytest.mark.long
def test_columns_of_a_program_are_planned(tmp_path):
    done = plan("--json", "--columns", "--min-buckets", 1000, "--program",
                os.path.join(PROGRAMS, "column_clicks.py"), "--", tmp_path, 60)
    tables = tables_of(done)
    assert sorted(table["keys"] for table in tables.values()) == [5000, 5000, 20000]
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith("model.ckpt")]


@pytest.mark.skipif(sys.version_info >= (3, 8), reason="the program is for TensorFlow 1.15")
@pytest.mark.long
def test_a_program_of_the_incumbent_is_planned():
    tables = tables_of(plan("--json", "--program", os.path.join(PROGRAMS, "ascend_demo.py"), USE_MODE="train",
                            CACHE_MODE="DDR"))
    assert sorted(tables) == ["item_table", "user_table"]
    assert all(table["host_bytes"] > 0 for table in tables.values())


@pytest.mark.parametrize("text, reason", [
    ("import sys; sys.exit(3)", "it ended with exit code 3 before it started a pipeline"),
    ("print('no tables')", "it ended with exit code 0 before it started a pipeline"),
    ("import time; time.sleep(100)", "it started no pipeline within 1 s")])
def test_a_program_without_a_pipeline_is_an_error_with_the_reason(text, reason, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(text)
    done = plan("--timeout", 1 if "100" in text else 60, "--program", program)
    assert (done.returncode, done.stdout if "no tables" not in text else "") == (1, "")
    assert "E233" in done.stderr and reason in done.stderr
