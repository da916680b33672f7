"""Initial rows of whole programs: distributions, seeds, and initializers that are sampled into a pool."""
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.program import row_initializers
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import gradient_descent
from tests.tf import programs

V1 = tf.compat.v1
DIM = 16
KEYS = np.arange(-600, 600, dtype=np.int64)


def rows_of(initializers, keys=KEYS, graph_seed=1, steps=0):
    """The rows of some keys in tables named as their initializers, after some steps that add one to each.

    Args:
        initializers: by the name of the table, each with ``init_param``.
    """
    found = {}
    with programs.ascpipe():
        V1.set_random_seed(graph_seed)
        tables = {name: create_table(tf.int64, DIM, name, initializer, device_vocabulary_size=2000, init_param=scale)
                  for name, (initializer, scale) in initializers.items()}
        features = [FeatureSpec(name + "_ids", table_name=name, index_key="ids") for name in tables]
        data = tf.data.Dataset.from_tensors({"ids": keys}).repeat(steps + 1)
        iterator = V1.data.make_initializable_iterator(data.map(get_asc_insert_func(features)).prefetch(2))
        batch = iterator.get_next()
        rows = {name: sparse_lookup(table, feature, None, batch=batch)
                for (name, table), feature in zip(tables.items(), features)}
        variables = [table.variable for table in tables.values()]
        gradients = tf.gradients([-tf.reduce_sum(row) for row in rows.values()], variables)
        train = gradient_descent.create_hash_optimizer(1.0).apply_gradients(list(zip(gradients, variables)))
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, V1.global_variables_initializer()])
            for _ in range(steps):
                run.run(train)
            found = run.run(rows)
    return found


def test_values_are_distributed_as_the_initializer_says():
    rows = rows_of({"uniform": (V1.random_uniform_initializer(-2.0, 4.0), 1.0),
                    "normal": (V1.random_normal_initializer(3.0, 2.0), 1.0),
                    "truncated": (V1.truncated_normal_initializer(1.0, 0.5), 1.0),
                    "glorot": (V1.glorot_uniform_initializer(), 1.0)})
    uniform, normal, truncated = rows["uniform"], rows["normal"], rows["truncated"]
    assert -2.0 <= uniform.min() < -1.99
    assert 3.99 < uniform.max() <= 4.0
    assert uniform.mean() == pytest.approx(1.0, abs=0.05)
    assert uniform.std() == pytest.approx(6 / math.sqrt(12), abs=0.05)
    assert normal.mean() == pytest.approx(3.0, abs=0.06)
    assert normal.std() == pytest.approx(2.0, abs=0.05)
    assert np.abs(truncated - 1.0).max() <= 1.0
    assert truncated.mean() == pytest.approx(1.0, abs=0.02)
    assert truncated.std() == pytest.approx(0.8796 * 0.5, abs=0.02)
    assert np.abs(rows["glorot"]).max() == pytest.approx(math.sqrt(3 / DIM), rel=1e-3)


#: One whose values are computed, one whose rows are picked from a pool.
UNSEEDED = {"computed": (V1.random_normal_initializer(), 1.0), "picked": (V1.orthogonal_initializer(), 1.0)}


def test_rows_do_not_depend_on_the_order_of_keys_and_their_company():
    rows, others = rows_of(UNSEEDED), rows_of(UNSEEDED, KEYS[::-3])
    for name in UNSEEDED:
        assert np.array_equal(others[name], rows[name][::-3])


def test_without_a_seed_rows_follow_the_tables_name_and_the_graphs_seed():
    rows, others = rows_of(UNSEEDED), rows_of(UNSEEDED, graph_seed=2)
    renamed = rows_of({name + "_too": initializer for name, initializer in UNSEEDED.items()})
    for name in UNSEEDED:
        assert not np.array_equal(rows[name], others[name])
        assert not np.array_equal(rows[name], renamed[name + "_too"])


def test_init_param_multiplies_and_changes_no_seed():
    values = {**UNSEEDED, "one": (V1.ones_initializer(), 1.0), "each": (V1.constant_initializer(list(range(DIM))), 1.0)}
    rows = rows_of(values)
    halves = rows_of({name: (initializer, -0.5) for name, (initializer, _) in values.items()})
    for name in values:
        assert np.array_equal(halves[name], np.float32(-0.5) * rows[name])


def test_a_program_with_an_unusual_initializer_trains_and_two_runs_are_the_same(caplog):
    unusual = {"user": (V1.orthogonal_initializer(), 1.0)}
    rows = rows_of(unusual)["user"]
    (warning,) = [record for record in caplog.records if record.name == row_initializers.__name__]
    assert warning.levelname == "WARNING"
    assert "'user'" in warning.getMessage()
    assert np.array_equal(rows, rows_of(unusual)["user"])
    assert 900 < len(np.unique(rows, axis=0)) < len(KEYS)  # of 4096 rows
    trained = rows_of(unusual, steps=3)["user"]
    assert np.array_equal(trained, rows + np.float32(1) + np.float32(1) + np.float32(1))


def test_each_row_begins_with_the_values_of_a_constant_row():
    values = np.linspace(-1, 1, DIM).astype(np.float32)
    rows = rows_of({"user": (V1.constant_initializer(values), 1.0)})["user"]
    assert np.array_equal(rows, np.tile(values, [len(KEYS), 1]))


_THREADS_OF_A_SESSION = """
import os, sys
import tensorflow as tf
from ascpipe.tf.program.row_initializers import row_initializer
if sys.argv[1] == "sample":
    assert row_initializer(tf.compat.v1.orthogonal_initializer(), "user", 4, None).pool is not None
before = len(os.listdir("/proc/self/task"))
with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=40)) as session:
    session.run(tf.random.normal([4, 4]))
    sys.stdout.write(str(len(os.listdir("/proc/self/task")) - before))
"""


@pytest.mark.parametrize("before", ["nothing", "sample"])
def test_a_pool_leaves_the_threads_of_the_programs_session_alone(before):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _THREADS_OF_A_SESSION, before], check=True,
                          cwd=os.getcwd(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=50)
    assert int(done.stdout) >= 40
