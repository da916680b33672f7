"""A table as the trainer maps it: how large it is, and what is refused of its segment."""
import os

import pytest
import tensorflow as tf

from ascpipe.layout import structs
from tests.support.fake_daemon import FakeDaemon
from tests.support.fake_segments import FakeTable
from tests.support.op_graph import DIM, stream_shape, table_shape

TABLE = table_shape()
TRAIN = stream_shape()


def test_the_capacity_of_a_table_is_its_rows_on_the_device_or_at_home():
    at_home = table_shape(1)._replace(home_rows=500, row_floats=DIM)
    with FakeDaemon([TABLE, at_home], [stream_shape(tables=(0, 1))]) as daemon:
        assert [daemon.pipeline.table_capacity(number) for number in (0, 1)] == [100, 500]


@pytest.mark.parametrize(("change", "kind", "text"), [
    ({"home_rows": 6}, tf.errors.InternalError, "and 5 home rows of 4, expected 100 rows of 4 and 6 home rows of 4"),
    ({"row_floats": 8}, tf.errors.InternalError, "home rows of 4, expected .* home rows of 8"),
    ({"row_floats": 3}, tf.errors.InvalidArgumentError, r"5 home rows of 3 floats are not possible \(dim 4\)"),
    ({"home_rows": -1}, tf.errors.InvalidArgumentError, "-1 home rows"),
    ({"dim": 5, "row_floats": 5}, tf.errors.InternalError, "with 100 rows of 4 .* expected 100 rows of 5"),
])
def test_a_table_whose_segment_is_of_another_size_is_refused(change, kind, text):
    shape = table_shape(1)._replace(home_rows=5, row_floats=DIM)
    table = FakeTable(shape)
    try:
        with FakeDaemon([TABLE], [TRAIN]) as daemon:
            with pytest.raises(kind, match=text):
                daemon.pipeline.add_table(shape._replace(**change), (table.fd, table.bytes))
    finally:
        os.close(table.fd)


def test_a_second_stream_that_would_train_a_table_is_refused():
    with FakeDaemon([TABLE], [TRAIN]) as daemon:
        ring = daemon.rings[0].fd, daemon.rings[0].bytes
        with pytest.raises(tf.errors.InvalidArgumentError, match="stream 1 would be the second to train table 0"):
            daemon.pipeline.add_stream(stream_shape(1), ring)


def test_home_rows_beyond_the_segment_are_refused():
    shape = table_shape(1)._replace(home_rows=5000, row_floats=DIM)
    table = FakeTable(shape)
    try:
        with FakeDaemon([TABLE], [TRAIN]) as daemon:
            cut = int(table.header["log_offset"]) - structs.PAGE
            told = "5000 home rows of 16 bytes at byte .* do not fit into it"
            with pytest.raises(tf.errors.InternalError, match=told):
                daemon.pipeline.add_table(shape, (table.fd, cut))
    finally:
        os.close(table.fd)


def test_a_log_beyond_the_segment_is_refused():
    table = FakeTable(table_shape(1))
    try:
        with FakeDaemon([TABLE], [TRAIN]) as daemon:
            with pytest.raises(tf.errors.InternalError, match="164 images of 56 bytes at byte .* do not fit into it"):
                daemon.pipeline.add_table(table_shape(1), (table.fd, table.bytes - structs.PAGE))
    finally:
        os.close(table.fd)
