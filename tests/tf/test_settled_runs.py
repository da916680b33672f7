"""A run of a session is checked once, and again only if something has changed that a check depends on."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.tf.checkpoints import pending_loads
from ascpipe.tf.graph import settled_runs
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.starting import session_runs
from tests.tf import twin_programs

v1 = tf.compat.v1
IDS = np.arange(6, dtype=np.int64)


@pytest.fixture
def checked(monkeypatch):
    """A list that grows by one for each checked run."""
    checked = []
    plain = session_runs.refuse_fed_ids

    def count(graph, arguments):
        checked.append(settled_runs.run_of(graph, arguments)[1:])
        plain(graph, arguments)

    monkeypatch.setattr(session_runs, "refuse_fed_ids", count)
    return checked


class Program:
    def __init__(self, **settings):
        spec = asc.FeatureSpec("ids", table_name="user")
        data = tf.data.Dataset.from_tensors({"ids": IDS}).repeat(50).map(asc.insert_function(spec)).prefetch(2)
        self.iterator = v1.data.make_initializable_iterator(data)
        table = asc.create_table("user", 2, initializer=v1.ones_initializer(), device_vocabulary_size=20,
                                 **settings)
        self.rate = v1.placeholder_with_default(0.5, [])
        self.rows = asc.sparse_lookup(table, spec, batch=self.iterator.get_next())
        loss = tf.reduce_sum(self.rows ** 2 / 2)
        self.train = asc.optimizers.Adagrad(0.5).minimize(loss)
        self.scaled = self.rate * loss

    def start(self, session):
        session.run([self.iterator.initializer, v1.global_variables_initializer()])


def test_the_same_run_is_checked_once(checked):
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program()
        asc.start()
        with v1.Session() as session:
            program.start(session)
            del checked[:]
            for _ in range(3):
                session.run(program.train)
            assert len(checked) == 1
            for rate in (1.0, 2.0):
                session.run(program.scaled, {program.rate: rate})
            session.run(program.scaled)
            assert len(checked) == 3
            v1.no_op()
            session.run(program.train)
            session.run(program.train)
            assert len(checked) == 4
            with v1.Session() as other:
                other.run(program.rate)
                session.run(program.rate)  # the sessions of a graph share the checked runs
                other.run(program.rate)
            assert len(checked) == 5


def test_runs_that_write_tables_are_checked_each_time(checked):
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program(host_vocabulary_size=20)
        asc.start()
        initializer = v1.global_variables_initializer()
        with v1.Session() as session:
            for _ in range(2):
                session.run([program.iterator.initializer, initializer])
                session.run(program.train)
            assert len(checked) == 3  # twice for the initializers, once for the training step
    del checked[:]
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program()
        session = v1.Session()
        session.run(program.rate)
        session.run(program.rate)
        assert len(checked) == 2  # the pipeline has not started
        asc.start()
        program.start(session)


def test_runs_of_graphs_without_tables_and_of_an_earlier_init(checked):
    graph = tf.Graph()
    with graph.as_default():
        one = tf.constant(1.0)
    with v1.Session(graph=graph) as session:
        for _ in range(2):
            with twin_programs.ascpipe():
                session.run(one)
                session.run(one)
        assert len(checked) == 2


def test_a_selected_warm_start_is_checked_again(checked):
    with twin_programs.ascpipe(), tf.Graph().as_default():
        program = Program()
        asc.start()
        with v1.Session() as session:
            program.start(session)
            session.run(program.rate)
            del checked[:]
            state = GraphState.of(session.graph)
            pending_loads.expect(state, ["user"])
            session.run(program.rate)
            session.run(program.rate)
            assert len(checked) == 2
            pending_loads.settle(state)
            session.run(program.rate)
            session.run(program.rate)
            assert len(checked) == 3


def test_only_a_limited_number_of_runs_is_remembered(monkeypatch):
    monkeypatch.setattr(settled_runs, "_MOST_RUNS", 3)
    with twin_programs.ascpipe(), tf.Graph().as_default() as graph:
        state = GraphState.of(graph)
        with v1.Session() as session:
            for number in range(4):
                settled_runs.settle(session, state, (graph.version, str(number)))
        assert settled_runs._settled(state) == {(graph.version, "3")}
