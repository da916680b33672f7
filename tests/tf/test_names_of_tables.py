"""A name of a table either is refused when the table is made, or can be saved and read."""
import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import ascpipe.tf as asc
from ascpipe.checkpoint import paths, table_folders
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.tf.graph.features import TABLE_NAME_PATTERN
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.running.process import Process, init, terminate_config_initializer
from tests.support import checkpoints
from tests.support.checkpoints import content
from tests.support.covering import example_count
from tests.tf import programs

RECORDS = (paths.MANIFEST, paths.PAIR, paths.MARKER, paths.DENSE, paths.slice_record(0))


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
    if Process.is_initialised():
        terminate_config_initializer()


@given(name=st.one_of(
    st.from_regex(TABLE_NAME_PATTERN, fullmatch=True), st.sampled_from([
        value for value in vars(paths).values() if isinstance(value, str)]),
    st.sampled_from([*table_folders.OURS, *RECORDS, "dense_part", "checkpoint", "model", "0", "_", "sparse"])))
@settings(max_examples=example_count(15, 150))
def test_every_name_that_is_taken_can_be_saved_beside_all_other_files(name, tmp_path_factory):
    with tf.Graph().as_default():
        init()
        try:
            table = create_table(tf.int64, 1, name, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)
        except ValueError as error:
            assert "Table name" in str(error) or "argument name" in str(error)
            return
        finally:
            terminate_config_initializer()
    one = content(table.table_name, 3, 1, dim=1, slots=("LazyAdam_momentum",), pool_rows=2)
    with open_checkpoint(checkpoints.save(tmp_path_factory.mktemp("named"), 1, [one])) as checkpoint:
        checkpoints.assert_holds(checkpoint, [one])


@pytest.mark.parametrize("name", ["ASCPIPE", "ASC.PIPE"])
def test_the_name_of_a_file_of_every_checkpoint_is_refused_with_the_cure(name):
    init()
    with pytest.raises(ValueError, match="E268: Table name '{}' is reserved, .* Choose another".format(name)):
        create_table(tf.int64, 1, name, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)


# ---- several names in one program

def rows_of(names, folder, prefix=None):
    """By name of a table, its rows after three steps, or as a checkpoint has them; and the path of a checkpoint."""
    with tf.Graph().as_default(), asc.pipeline():
        specs = {name: asc.FeatureSpec("of_" + name, table_name=name, index_key=str(at))
                 for at, name in enumerate(names)}
        data = tf.data.Dataset.from_tensors({str(at): np.arange(4) for at in range(len(names))}).repeat(9)
        iterator = tf.compat.v1.data.make_initializable_iterator(data.map(asc.insert_function(list(specs.values()))))
        batch = iterator.get_next()
        found, losses = {}, []
        for name in names:
            table = asc.create_table(name, 2, initializer=tf.compat.v1.zeros_initializer(), device_vocabulary_size=8)
            found[name] = asc.sparse_lookup(table, specs[name], batch=batch)
            wanted = zlib.crc32(name.encode()) % 1000 / 100 + 1.0  # other rows in each table
            losses.append(tf.reduce_sum(tf.square(found[name] - wanted)))
        train = asc.optimizers.LazyAdam(0.1).minimize(tf.add_n(losses))
        saver = asc.Saver()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            if prefix is None:
                for _ in range(3):
                    run.run(train)
                prefix = saver.save(run, str(folder / "model"))
            else:
                saver.restore(run, prefix)
            return {name: rows.tobytes() for name, rows in run.run(found).items()}, prefix


NAMES = ["User", "user", "user_1", "USER", "user_LazyAdam", "user_LazyAdam_1", "training", "save", "ascpipe", "table_x",
         "_x", "model"]


def test_names_that_differ_in_letter_case_or_look_like_slots_and_scopes_are_names_of_their_own(tmp_path):
    trained, prefix = rows_of(NAMES, tmp_path)
    assert len(set(trained.values())) == len(NAMES)
    restored, _ = rows_of(NAMES[::-1], tmp_path, prefix)
    assert restored == trained


@pytest.mark.parametrize("first, second", [("a.b", "ab"), ("ab", ".ab"), ("ab", "a.b."), ("ab", "ab")])
def test_a_name_that_is_taken_once_dots_are_removed_is_refused(first, second):
    init()
    create_table(tf.int64, 1, first, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)
    with pytest.raises(ValueError, match="E268: Table name '{}' is already used".format(second)):
        create_table(tf.int64, 1, second, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)
