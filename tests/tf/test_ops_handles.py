"""AscReadRows and AscWriteRows: home rows by handle, and handles that name none."""
import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.running import native
from tests.support.fake_daemon import FakeDaemon
from tests.support.fake_segments import CHUNK_ROWS
from tests.support.op_graph import (
    DIM,
    FLOATS,
    build,
    expansion_shape,
    first_row,
    handle,
    home_row,
    session,
    stream_shape,
    table_shape,
)

TRAIN = stream_shape()


def fed(opened, graph):
    """Handles that are fed to a read and to a write of zeros, both in the step that trains the next batch."""
    with graph.graph.as_default():
        handles = tf.compat.v1.placeholder(tf.int64, [None])
        with tf.control_dependencies([graph.channels[0].plans[0].slots]):
            read = native.ops().asc_read_rows(handles, width=DIM)
            write = native.ops().asc_write_rows(handles, tf.zeros([tf.size(handles), DIM]))
    return (lambda values: opened.run(read, {handles: values})), (lambda values: opened.run(write, {handles: values}))


@pytest.mark.parametrize("threads", [1, 4])
def test_repeated_handles_are_written_in_their_order(threads):
    table, count = expansion_shape(home_rows=600), 20000
    random = np.random.RandomState(3)
    picks, values = random.randint(0, 600, count), random.randn(count, DIM).astype(np.float32)
    for add in (False, True):
        with FakeDaemon([table], [TRAIN], arena_bytes=1 << 18) as daemon:
            graph = build([list(range(600))], [TRAIN], [table])
            with graph.graph.as_default():
                handles = tf.gather(graph.channels[0].locals[0].handles, picks)
                write = native.ops().asc_write_rows(handles, values, add=add)
            with session(graph, threads=threads) as opened:
                opened.run(write)
            expected = np.array([home_row(table, key) for key in range(600)])
            for pick, value in zip(picks, values):
                expected[pick, :DIM] = expected[pick, :DIM] + value if add else value
            assert np.array_equal(daemon.tables[0].home, expected)


def test_reads_and_writes_of_no_row_need_no_table():
    with FakeDaemon([expansion_shape()], [TRAIN]):
        with tf.Graph().as_default(), tf.compat.v1.Session() as opened:
            write = native.ops().asc_write_rows(np.zeros(2, np.int64), tf.ones([2, 99]))
            rows, _ = opened.run([native.ops().asc_read_rows(np.zeros(3, np.int64), width=2), write])
            assert np.array_equal(rows, np.zeros((3, 2)))


def test_handles_end_with_the_step_that_made_them():
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1], [1], [1]], [TRAIN], [table])
        with session(graph) as opened:
            read, write = fed(opened, graph)
            old = opened.run(graph.channels[0].locals[0].handles)
            before = daemon.tables[0].home.copy()
            for use in (read, write):
                with pytest.raises(tf.errors.FailedPreconditionError,
                                   match=r"handle 0x100020000000000 at index 1 \(table 0, step 2, row 0\) was not "
                                         r"made by the step that trains table 'table0' now \([34]\): handles are "
                                         "valid in the step that made them. Nothing was read or written"):
                    use([0, *old])
            assert np.array_equal(daemon.tables[0].home, before)
            with tf.Graph().as_default(), tf.compat.v1.Session() as other:
                with pytest.raises(tf.errors.FailedPreconditionError, match=r"now \(0\)"):
                    other.run(native.ops().asc_read_rows(old, width=1))


@pytest.mark.parametrize(("forged", "text"), [
    (handle(3, 2, 0), r"handle 0x400020000000000 at index 1 \(table 3, .*there is no table 3"),
    (handle(-1, 2, 0), r"handle 0x20000000000 at index 1 \(table -1, .*there is no table -1"),
    (-1, r"handle 0xffffffffffffffff at index 1 \(table 254, .*there is no table 254"),
    (handle(1, 2, 0), "rows of table 'table1' have no handles, .* only with use_dynamic_expansion"),
    (handle(0, 2, CHUNK_ROWS), "row 8.* names no row: table 'table0' has 8 rows with memory"),
    (handle(0, 2, (1 << 40) - 1), "row 1099511627775.* names no row"),
    (handle(0, 0, 0), "step 0.* was not made by the step"),
    (handle(0, 3, 0), "step 3.* was not made by the step"),
])
def test_forged_handles_are_refused_before_anything_is_written_and_training_goes_on(forged, text):
    tables, streams = [expansion_shape(), table_shape(1)], [stream_shape(tables=(0, 1))]
    with FakeDaemon(tables, streams) as daemon:
        graph = build([[1, 2], [1, 2]], streams, tables)
        channel = graph.channels[0]
        with graph.graph.as_default():
            handles = tf.concat([channel.locals[0].handles[:1] * 0, [forged], channel.locals[0].handles], 0)
            with tf.control_dependencies(channel.embeddings):
                write = native.ops().asc_write_rows(handles, tf.zeros([4, DIM]))
        with session(graph) as opened:
            with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError),
                               match="(?s)" + text + ".*Nothing was read or written"):
                opened.run(write)
            assert np.array_equal(daemon.tables[0].home[:2], [home_row(tables[0], key) for key in (1, 2)])
            assert np.array_equal(opened.run(channel.embeddings[0]), [first_row(tables[0], key) for key in (1, 2)])


def test_handles_of_two_tables_in_one_op_are_refused():
    tables, streams = [expansion_shape(), expansion_shape(1)], [stream_shape(tables=(0, 1))]
    with FakeDaemon(tables, streams):
        graph = build([[1]], streams, tables)
        with graph.graph.as_default():
            handles = tf.concat([local.handles for local in graph.channels[0].locals], 0)
            rows = native.ops().asc_read_rows(handles, width=DIM)
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"at index 1 \(table 1, .* table than 'table0'"):
                opened.run(rows)


@pytest.mark.parametrize(("handles", "rows", "text"), [
    ([handle(0, 2, 0)], np.zeros((1, FLOATS + 1)), "9 floats of each row of table 'table0', which has 8"),
    ([handle(0, 2, 0)], np.zeros((2, DIM)), r"rows have shape \[2,4\] for 1 handles, expected \[1, width\]"),
    ([handle(0, 2, 0)], np.zeros(1), r"rows have shape \[1\]"),
    ([[handle(0, 2, 0)]], np.zeros((1, DIM)), r"handles have shape \[1,1\], expected a vector"),
])
def test_rows_and_handles_of_another_shape_are_refused(handles, rows, text):
    table = expansion_shape()
    with FakeDaemon([table], [TRAIN]) as daemon:
        graph = build([[1]], [TRAIN], [table])
        with graph.graph.as_default():
            names, values = tf.compat.v1.placeholder(tf.int64), tf.compat.v1.placeholder(tf.float32)
            with tf.control_dependencies([graph.channels[0].plans[0].slots]):
                write = native.ops().asc_write_rows(names, values)
        with session(graph) as opened:
            with pytest.raises(tf.errors.InvalidArgumentError, match=text):
                opened.run(write, {names: handles, values: rows})
            assert np.array_equal(daemon.tables[0].home[0], home_row(table, 1))
