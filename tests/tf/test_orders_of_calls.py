"""``start_asc_pipeline`` marks a graph; what programs do between it and the first run of a session they may do in any
order."""
import itertools
import threading

import pytest
import tensorflow as tf

from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph.modifier import GraphModifierHook, modify_graph_and_start_emb_cache
from mx_rec.util.initialize import is_asc_manager_initialized
from tests.tf import programs, tensor_programs

SOURCE = programs.batches(6)
#: The order of TensorFlow's own programs, and every one in which the pipeline is started first.
ORDERS = [("gradients", "saver", "evaluation", "start"),
          *(("start", *others) for others in itertools.permutations(("gradients", "saver", "evaluation")))]


class Ordered:
    """A program whose calls come in an order that the test chooses, each made once."""

    def __init__(self, folder):
        self.folder = folder
        self.table = programs.table("a")
        self.spec = FeatureSpec("a", table_name="a")
        self.iterator, self.batch = self._take([self.spec], True)
        self.rows = sparse_lookup(self.table, self.spec, is_train=True, batch=self.batch)
        weights = tf.compat.v1.get_variable("weights", [programs.DIM], initializer=tf.compat.v1.ones_initializer())
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(self.rows * weights, [1, 2]) - self.batch["label"]))

    def _take(self, specs, is_training):
        data = programs.dataset(SOURCE).map(get_asc_insert_func(specs, is_training=is_training)).prefetch(4)
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
        return iterator, iterator.get_next()

    def start(self):
        start_asc_pipeline()

    def gradients(self):
        rate = 0.1
        sparse, dense = programs.optimizer("lazy_adam", rate), tf.compat.v1.train.AdamOptimizer(rate)
        (weights,) = tf.compat.v1.trainable_variables()
        found = tf.gradients(self.loss, [self.table.variable, weights])
        self.train = tf.group(sparse.apply_gradients([(found[0], self.table.variable)]),
                              dense.apply_gradients([(found[1], weights)]))

    def saver(self):
        self.saved_by = tf.compat.v1.train.Saver()

    def evaluation(self):
        spec = FeatureSpec("a", table_name="a")
        self.eval_iterator, batch = self._take([spec], False)
        self.eval_rows = sparse_lookup(self.table, spec, is_train=False, batch=batch)

    def trained(self):
        """Losses, rows that an evaluation finds, keys, and the rows after a save was restored."""
        with programs.session() as session:
            session.run(self.iterator.initializer)
            session.run(tf.compat.v1.global_variables_initializer())
            losses = [session.run([self.loss, self.train])[0] for _ in SOURCE]
            rows = self._evaluated(session)
            self.saved_by.restore(session, self.saved_by.save(session, str(self.folder / "model"), 1))
            return losses, rows, self.table.size(), self._evaluated(session)

    def _evaluated(self, session):
        session.run(self.eval_iterator.initializer)
        return session.run(self.eval_rows).tolist()


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the program gives by order of calls; filled by the first test that asks."""
    return []


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_calls_before_the_first_run_may_come_in_any_order(order, expected, tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        for call in order:
            getattr(program, call)()
        found = program.trained()
    assert found[1] == found[3]
    expected.append(found)
    assert found == expected[0]


def test_a_train_op_may_be_made_after_the_graph_was_modified():
    def losses(late):
        with programs.ascpipe():
            table = programs.table("a")
            iterator = tf.compat.v1.data.make_initializable_iterator(programs.dataset(SOURCE).prefetch(4))
            batch = iterator.get_next()
            rows = sparse_lookup(table, batch["a"], is_train=True, modify_graph=True)
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - batch["label"]))
            optimizer = programs.optimizer("lazy_adam", 0.1)
            gradients = optimizer.compute_gradients(loss, [table.variable])
            if late:
                modify_graph_and_start_emb_cache()
            train = optimizer.apply_gradients(gradients)
            if not late:
                modify_graph_and_start_emb_cache()
            with programs.session() as session:
                session.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
                return [session.run([loss, train])[0] for _ in SOURCE]

    assert losses(late=True) == losses(late=False)


def test_the_pipeline_starts_with_the_first_run_and_its_tables_are_empty_before(tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        assert (program.table.size(), program.table.capacity()) == (0, 100)
        assert is_asc_manager_initialized()
        assert Process.current().pipeline is None
        program.gradients()
        with programs.session() as session:
            assert Process.current().pipeline is None
            session.run(program.iterator.initializer)
            assert Process.current().pipeline is not None
            assert program.table.capacity() == 100


@pytest.mark.parametrize("run", [
    lambda session, op: session.make_callable(op)(),
    lambda session, op: session.partial_run(session.partial_run_setup([op], []), op),
    lambda session, op: session.graph.finalize()], ids=["a callable", "a partial run", "the graph's end"])
def test_each_way_to_run_a_session_starts_the_pipeline(run, tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        program.gradients()
        constant = tf.constant(1.0)
        with programs.session() as session:
            run(session, constant)
            assert Process.current().pipeline is not None


def test_a_session_of_another_graph_starts_nothing(tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        with tf.Graph().as_default():
            constant = tf.constant(1.0)
            with programs.session() as session:
                session.run(constant)
        assert Process.current().pipeline is None
        program.gradients()  # it is still time


def test_a_start_that_fails_fails_again_and_succeeds_once_its_cause_is_gone(tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        spec = FeatureSpec("c", table_name="c")
        other = programs.table("c")
        iterator, batch = program._take([spec], True)
        rows = sparse_lookup(other, spec, is_train=True, batch=batch, is_grad=False)
        program.start()
        program.gradients()
        with programs.session() as session:
            for _ in range(2):
                with pytest.raises(RuntimeError, match="Table 'c' cannot be trained"):
                    session.run(program.iterator.initializer)
            sparse_lookup(other, spec, is_train=True, batch=batch)
            session.run([program.iterator.initializer, iterator.initializer])
            session.run(tf.compat.v1.global_variables_initializer())
            session.run([program.train, rows])


def test_threads_that_begin_together_start_one_pipeline(tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        program.gradients()
        initialise = tf.compat.v1.global_variables_initializer()
        failures = []
        with programs.session() as session:
            def begin():
                try:
                    session.run(initialise)
                except Exception as error:  # noqa: BLE001  it is shown below
                    failures.append(error)

            threads = [threading.Thread(target=begin) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert not failures
            session.run(program.iterator.initializer)
            session.run(program.train)
            assert program.table.size() > 0


@pytest.mark.parametrize("again", [start_asc_pipeline, lambda: GraphModifierHook(modify_graph=False).begin()],
                         ids=["a call", "a hook"])
def test_a_second_start_of_a_graph_does_nothing(again, tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        program.gradients()
        again()
        with programs.session() as session:
            session.run(program.iterator.initializer)
            pipeline = Process.current().pipeline
            again()
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(program.train)
            assert Process.current().pipeline is pipeline


def test_what_comes_after_the_first_run_is_too_late(tmp_path):
    with programs.ascpipe():
        program = Ordered(tmp_path)
        program.start()
        with pytest.raises(OSError, match="E263: .*Create all tables before"):
            programs.table("b")
        optimizer = programs.optimizer("lazy_adam", 0.1)
        (gradient,) = tf.gradients(program.loss, [program.table.variable])
        with programs.session() as session:
            session.run(program.iterator.initializer)
            with pytest.raises(RuntimeError, match="cannot be looked up for training, because the pipeline has already "
                               "started"):
                sparse_lookup(program.table, program.spec, is_train=True, batch=program.batch)
            with pytest.raises(RuntimeError, match="slot variable .* cannot be added"):
                optimizer.apply_gradients([(gradient, program.table.variable)])


def test_a_graph_is_built_while_another_is_marked_and_brings_a_table_more(tmp_path):
    with programs.ascpipe():
        first = Ordered(tmp_path)
        first.start()
        first.gradients()
        with tf.Graph().as_default():
            programs.table("b")
            second = Ordered(tmp_path)
            second.start()
            second.gradients()
            with programs.session() as session:
                session.run([second.iterator.initializer, tf.compat.v1.global_variables_initializer()])
                session.run(second.train)
        assert list(Process.current().pipeline.tables) == ["a", "b"]


@pytest.mark.parametrize("made, text", [
    (programs.Program, "E205.*make the session after it"), (tensor_programs.Program, "invalid output")],
    ids=["features", "tensors"])
def test_a_session_that_ran_before_the_start_is_told_to_be_made_anew(made, text, caplog):
    with programs.ascpipe():
        kwargs = {"modify": lambda: None} if made is tensor_programs.Program else {"start": False}
        program = made(SOURCE, lambda: programs.optimizer("gradient_descent", 0.1), **kwargs)
        with programs.session() as session:
            session.run(tf.no_op())
            (modify_graph_and_start_emb_cache if made is tensor_programs.Program else start_asc_pipeline)()
            assert "ran before" not in caplog.text
            with pytest.raises(tf.errors.OpError, match=text):
                session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
                session.run(program.train)
            assert caplog.text.count("create the session after it") == 1
        caplog.clear()
        with programs.session() as session:
            session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
            session.run(program.train)
        assert "ran before" not in caplog.text


def test_a_graph_that_was_marked_and_thrown_away_is_in_nobodys_way(tmp_path):
    with programs.ascpipe():
        thrown_away = Ordered(tmp_path)
        thrown_away.start()  # without gradients
        with tf.Graph().as_default():
            program = Ordered(tmp_path)
            program.start()
            program.gradients()
            with programs.session() as session:
                session.run([program.iterator.initializer, tf.compat.v1.global_variables_initializer()])
                session.run(program.train)
                assert program.table.size() > 0
