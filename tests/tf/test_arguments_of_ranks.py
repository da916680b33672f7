"""Arguments of a program that is one of several ranks, and what several ranks cannot do yet."""
import pytest
import tensorflow as tf

from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.running.process import Process, init, terminate_config_initializer

TABLE = {"key_dtype": tf.int64, "dim": 8, "name": "user", "emb_initializer": tf.compat.v1.zeros_initializer(),
         "device_vocabulary_size": 100}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield
    if Process.is_initialised():
        terminate_config_initializer()


def test_ranks_in_the_environment_come_before_those_that_are_given(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    init(rank_id=0, rank_size=2)
    assert (Process.current().configuration.rank_id, Process.current().configuration.rank_size) == (1, 4)


def test_a_rank_is_below_their_number(monkeypatch):
    text = "Rank 2 is not below the number of ranks, 2. "
    with pytest.raises(ValueError, match="E260: " + text + "Pass a smaller rank_id"):
        init(rank_id=2, rank_size=2)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="E274: " + text + "Correct OMPI_COMM_WORLD_RANK or OMPI_COMM_WORLD_SIZE"):
        init()
    assert not Process.is_initialised()


def test_sizes_of_a_table_are_totals_over_ranks():
    init(rank_id=0, rank_size=3)
    shape = create_table(**{**TABLE, "device_vocabulary_size": 10, "host_vocabulary_size": 12}).shape
    assert (shape.device_rows, shape.home_rows) == (4, 4)


def test_the_rank_helpers_read_the_launchers_environment(monkeypatch):
    from mx_rec.util.communication import hccl_ops
    for name, value in (("RANK", "5"), ("SIZE", "8"), ("LOCAL_SIZE", "4")):
        monkeypatch.setenv("OMPI_COMM_WORLD_" + name, value)
    assert (hccl_ops.get_rank_id(), hccl_ops.get_rank_size(), hccl_ops.get_local_rank_size(),
            hccl_ops.get_device_id()) == (5, 8, 4, 1)


def test_the_getters_ask_the_launcher_before_init(monkeypatch):
    from ascpipe.tf.incumbent.getters_and_setters import get_rank_id, get_rank_size
    assert (get_rank_id(), get_rank_size()) == (0, 1)
    monkeypatch.setenv("HOROVOD_RANK", "2")
    monkeypatch.setenv("HOROVOD_SIZE", "3")
    assert (get_rank_id(), get_rank_size()) == (2, 3)


def test_rows_on_disk_are_shared_out_as_those_of_the_host(tmp_path):
    init(rank_id=0, rank_size=3)
    shape = create_table(**{**TABLE, "device_vocabulary_size": 10, "host_vocabulary_size": 12,
                            "ssd_vocabulary_size": 7, "ssd_data_path": [str(tmp_path)]}).shape
    assert (shape.device_rows, shape.home_rows, shape.disk_rows) == (4, 4 + 4, 7)
