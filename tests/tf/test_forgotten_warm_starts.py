"""A program that never loads the tables of its warm start gets an error before it can save."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import CallOrderError
from tests.tf import twin_programs

v1 = tf.compat.v1
IDS = np.arange(6, dtype=np.int64)


class Program:
    """Rows of 6 ids, which start with a value and are halved by each step."""

    def __init__(self, first, **settings):
        spec = asc.FeatureSpec("ids", table_name="user")
        data = tf.data.Dataset.from_tensors({"ids": IDS}).repeat(9).map(asc.insert_function(spec)).prefetch(2)
        batch = v1.data.make_one_shot_iterator(data).get_next()
        table = asc.create_table("user", 2, initializer=v1.constant_initializer(first), device_vocabulary_size=20,
                                 **settings)
        self.rows = asc.sparse_lookup(table, spec, batch=batch)
        self.train = asc.optimizers.GradientDescent(0.5).minimize(tf.reduce_sum(self.rows ** 2 / 2))


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with rows of 4.0."""
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program(8.0)
        asc.start()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(program.train)
            return asc.Saver().save(session, str(tmp_path / "model"), global_step=1)


def begun(checkpoint, act):
    """Rows of the first batch of another program, which has called ``act(load, session)``."""
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program(1.0)
        load = asc.warm_start(checkpoint, "user")
        asc.start()
        saver = asc.Saver()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            act(load, saver, session)
            return session.run([program.rows, program.train])[0][0, 0]


def test_a_step_without_the_load_is_an_error(checkpoint):
    with pytest.raises(CallOrderError, match="'user'.*Nothing was saved.*load.session") as found:
        begun(checkpoint, lambda load, saver, session: None)
    assert found.value.code == "E263"


@pytest.mark.parametrize("act, first", [
    (lambda load, saver, session: load(session), 4.0),
    (lambda load, saver, session: saver.restore(session, "restored"), 4.0)], ids=["load", "restore"])
def test_a_load_or_a_restore_is_enough(checkpoint, act, first, monkeypatch):
    restore = asc.Saver.restore
    monkeypatch.setattr(asc.Saver, "restore", lambda saver, session, _: restore(saver, session, checkpoint))
    assert begun(checkpoint, act) == first


def test_a_program_without_tables_in_the_selection_needs_no_load(checkpoint):
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program(1.0)
        v1.get_variable("dense", [1])
        asc.warm_start(checkpoint, [])
        asc.start()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run([program.rows, program.train])[0][0, 0] == 1.0


def test_pretrained_rows_are_not_trained_rows(checkpoint, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    np.save(str(folder / "keys.npy"), IDS)
    np.save(str(folder / "rows.npy"), np.full((len(IDS), 2), 7.0, np.float32))
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program(1.0, pretrained=str(folder))
        load = asc.warm_start(checkpoint, "user")
        asc.start()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            load(session)
            assert session.run([program.rows, program.train])[0][0, 0] == 4.0
