"""A checkpoint whose table has rows of another dimension is refused with the commands that import the rows."""
import contextlib
import re
import shlex

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import ascpipe.tf as asc
from ascpipe.checkpoint.errors import CheckpointMismatchError
from ascpipe.cli import main
from tests.support import parquets

KEYS = [3, 5]


@contextlib.contextmanager
def program(dim, name, optimizer=asc.optimizers.Adagrad):
    """The table, the Saver, the session and the training op of a program with one table."""
    with tf.Graph().as_default():
        asc.init()
        try:
            table = asc.create_table(name, dim, initializer=tf.compat.v1.ones_initializer(), device_vocabulary_size=20)
            spec = asc.FeatureSpec("ids", index_key="ids", table_name=name)
            data = tf.data.Dataset.from_tensors({"ids": np.array(KEYS, np.int64)}).repeat()
            data = data.map(asc.insert_function(spec)).prefetch(4)
            taken = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
            train = optimizer(1.0).minimize(tf.reduce_sum(asc.sparse_lookup(table, spec, batch=taken)))
            saver = asc.Saver()
            asc.start()
            with tf.compat.v1.Session() as run:
                run.run(tf.compat.v1.global_variables_initializer())
                yield table, saver, run, train
        finally:
            asc.shutdown()


def values(table):
    found = table.read(KEYS)
    return [found.rows, *found.slots.values()]


@pytest.mark.parametrize("dim", [2, 5])
def test_the_commands_of_the_error_import_the_rows(tmp_path, monkeypatch, dim):
    assert parquets.pyarrow is not None
    monkeypatch.chdir(tmp_path)
    with program(3, "ids") as (table, saver, run, train):
        run.run(train)
        trained = values(table)
        old = saver.save(run, str(tmp_path / "old dir" / "model"), global_step=1)
    with program(dim, "ids") as (table, saver, run, train):
        start = saver.save(run, str(tmp_path / "new" / "model"), global_step=0)
        with pytest.raises(CheckpointMismatchError) as raised:
            saver.restore(run, old)
        said = str(raised.value)
        assert said.startswith("E524: Checkpoint {}: table 'ids' has rows of 3 floats in the checkpoint and of {} in "
                               "this program. To use".format(old, dim)) and said.endswith("Nothing was changed")
        export, load = re.findall("`ascpipe (.*?)`", said)
        assert load == "checkpoint import ids_rows --into NEW --table ids {}".format(
            "--truncate" if dim == 2 else "--pad")
        for command in (export, load.replace("NEW", start)):
            done = CliRunner().invoke(main.main, shlex.split(command))
            assert done.exit_code == 0, done.output
        saver.restore(run, str(tmp_path / "new" / "model-imported-0"))
        for found, before, initial in zip(values(table), trained, np.float32([0.0, 0.1])):
            wanted = np.full((2, dim), initial, np.float32)
            wanted[:, :3] = before[:, :dim]
            np.testing.assert_array_equal(found, wanted)


def test_the_commands_omit_slots_that_the_program_does_not_have(tmp_path):
    with program(3, "ids") as (_, saver, run, train):
        run.run(train)
        old = saver.save(run, str(tmp_path / "model"), global_step=1)
    with program(4, "ids", asc.optimizers.GradientDescent) as (_, saver, run, _):
        with pytest.raises(CheckpointMismatchError, match="export {} --table ids --to ids_rows --counts`".format(old)):
            saver.restore(run, old)
