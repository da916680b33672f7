"""When a program begins a daemon of its own: with its first table, if it will need one."""
import pytest
import tensorflow as tf

from ascpipe.control import trainer_link
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.program.create_table import create_table
from ascpipe.tf.running.process import Process, init, terminate_config_initializer


@pytest.fixture
def calls(monkeypatch):
    """What was asked of the daemon that begins, in order."""
    made = []

    class Begun:
        def end(self):
            made.append("end")

    monkeypatch.setattr(trainer_link, "begin", lambda daemon: made.append(daemon) or Begun())
    monkeypatch.setattr(trainer_link, "require", lambda daemon: None)
    with tf.Graph().as_default():
        yield made
    assert not Process.is_initialised()


def table(name):
    return create_table(tf.int64, 4, name, tf.zeros_initializer(), device_vocabulary_size=8)


def test_a_daemon_begins_with_the_first_table_of_a_program_and_ends_if_no_pipeline_comes(calls):
    init(daemon="mine")
    assert calls == []
    table("user"), table("item")
    assert calls == ["mine"]
    terminate_config_initializer()
    assert calls == ["mine", "end"]


def test_no_daemon_begins_for_a_graph_that_is_exported(calls):
    init()
    GraphState.of(tf.compat.v1.get_default_graph()).served = object()
    table("user")
    terminate_config_initializer()
    assert calls == []
