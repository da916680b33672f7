"""A name of a table either is refused when the table is made, or can be saved and read."""
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.checkpoint import paths, table_folders
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.tf.graph.features import TABLE_NAME_PATTERN
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.running.process import Process, init, terminate_config_initializer
from tests.support import checkpoints
from tests.support.checkpoints import content

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
@settings(max_examples=40)
def test_every_name_that_is_taken_can_be_saved_beside_all_other_files(name, tmp_path_factory):
    with tf.Graph().as_default():
        init()
        try:
            table = create_table(tf.int64, 1, name, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)
        except ValueError as error:
            assert "table name" in str(error) or "argument name" in str(error)
            return
        finally:
            terminate_config_initializer()
    one = content(table.table_name, 3, 1, dim=1, slots=("LazyAdam_momentum",), pool_rows=2)
    with open_checkpoint(checkpoints.save(tmp_path_factory.mktemp("named"), 1, [one])) as checkpoint:
        checkpoints.assert_holds(checkpoint, [one])


@pytest.mark.parametrize("name", ["ASCPIPE", "ASC.PIPE"])
def test_the_name_of_a_file_of_every_checkpoint_is_refused_with_the_cure(name):
    init()
    with pytest.raises(ValueError, match="table name '{}' is reserved: .* choose another".format(name)):
        create_table(tf.int64, 1, name, tf.compat.v1.zeros_initializer(), device_vocabulary_size=2)
