"""Graphs that train after others: from where they ended, tables of their own, known ones by other features."""
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.errors import NotBuiltYetError
from ascpipe.tf import Saver, trained_batches
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from tests.support.covering import some
from tests.tf import programs
from tests.tf.readers import MODES, PROBES, SOURCE, Reader, adagrad, read_here, rings, same, sized

pytestmark = pytest.mark.timeout_s(120)


@pytest.fixture(params=some(sorted(MODES), "expansion", "host"))
def mode(request, monkeypatch):
    """Where rows live; programs of this test have such tables."""
    monkeypatch.setattr(programs, "table", sized(request.param))
    return request.param


class OneFeature:
    """A graph that trains one table by one feature."""

    def __init__(self, key, name, source=SOURCE):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(1)
            self.table = programs.table(name)
            spec = FeatureSpec("only", table_name=name, index_key=key)
            self.iterator, batch = programs.insert(source, [spec])
            self.rows = sparse_lookup(self.table, spec, batch=batch)
            self.loss = tf.reduce_sum(tf.sin(self.rows))
            rows, handles = programs.trained(self.table)
            gradients = tf.gradients(self.loss, rows)
            self.train = adagrad().apply_gradients(list(zip(gradients, handles)))
            self.initialize = tf.compat.v1.global_variables_initializer()
            start_asc_pipeline()

    def steps(self, count, anew=True):
        """Losses of a session of its own, which begins with empty tables, or with what they are."""
        with self.graph.as_default(), programs.session() as run:
            run.run([self.iterator.initializer] + [self.initialize] * anew)
            return [run.run([self.loss, self.train])[0] for _ in range(count)]


def test_a_graph_that_was_there_to_evaluate_reads_what_a_later_one_trains(mode, tmp_path):
    """The tables of the first graph are made anew for the second, with room for optimizer slots."""
    expanding = {"use_dynamic_expansion": mode == "expansion"}
    with programs.ascpipe(**expanding):
        reader = Reader(PROBES, saver=True)
        with reader.session() as other:
            other.run(reader.initialize)
            before = reader.read(other, 2)  # and leaves the rest of its data
            assert not np.concatenate([rows.reshape(-1) for rows in before[0] + before[1]]).any()
            with tf.Graph().as_default():
                tf.compat.v1.set_random_seed(1)
                program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
                saver = Saver()
                with programs.session() as run:
                    program.initialise(run)
                    losses = [run.run([program.loss, program.train])[0] for _ in range(3)]
                    expected = read_here(program, run)
                    assert same([other.run(reader.rows)], expected[2:3])
                    assert same(reader.read(other, len(PROBES)), expected)
                    prefix = saver.save(run, str(tmp_path / "model"), global_step=3)
                    losses += [run.run([program.loss, program.train])[0] for _ in range(3)]
                    reader.saver.restore(other, prefix)
                    assert same(reader.read(other, len(PROBES)), expected)
                    losses += [run.run([program.loss, program.train])[0] for _ in range(6)]
        assert trained_batches(prefix) == {"training": 3}
        assert [ring["channel"] for ring in rings()] == ["eval", "train"]
    assert losses == programs.our_losses(SOURCE, adagrad, **expanding)


def test_later_graphs_train_tables_of_their_own_and_known_ones_by_other_features(mode, tmp_path):
    expanding = {"use_dynamic_expansion": mode == "expansion"}
    with programs.ascpipe(**expanding):
        alone = OneFeature("c", "new").steps(4)
    with programs.ascpipe(**expanding):
        program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        with programs.session() as run:
            program.initialise(run)
            losses = [run.run([program.loss, program.train])[0] for _ in range(3)]
            new = OneFeature("c", "new")  # a table of its own: both are trained in turns
            workers = Process.current().running_pipeline().link.status()["workers"]
            os.kill(workers[-1]["pid"], signal.SIGKILL)
            assert new.steps(4) == alone
            losses += [run.run([program.loss, program.train])[0] for _ in range(3)]
            before = read_here(program, run)
        assert [ring["trained"] for ring in rings() if ring["channel"] == "train"] == [6, 4]
        reader = Reader(PROBES)
        with reader.session() as other:
            assert same(reader.read(other, len(PROBES)), before)
            OneFeature("b", "user").steps(2, anew=False)
            after = reader.read(other, len(PROBES))
            trained = np.isin(PROBES[0]["b"], np.concatenate([batch["b"] for batch in SOURCE[:2]]))
            assert np.array_equal((after[0][1] != before[0][1]).any(axis=1), trained) and trained.any()
            assert np.array_equal(after[0][2], before[0][2])
    assert losses == programs.our_losses(SOURCE, adagrad, **expanding)[:6]


def test_a_second_graph_trains_on_where_the_first_one_ended(mode, tmp_path):
    def parts(program, saver, prefix, steps):
        with programs.session() as run:
            if prefix is None:
                program.initialise(run)
            else:
                saver.restore(run, prefix)
                run.run(program.iterator.initializer)
            losses = [run.run([program.loss, program.train])[0] for _ in range(steps)]
            return losses, saver.save(run, str(tmp_path / "model"), global_step=steps)

    expanding = {"use_dynamic_expansion": mode == "expansion"}
    whole = programs.our_losses(SOURCE, adagrad, **expanding)
    with programs.ascpipe(**expanding):
        first, prefix = parts(programs.Program(SOURCE, adagrad), Saver(), None, 5)
        for begin in (5, 9):
            with tf.Graph().as_default():
                tf.compat.v1.set_random_seed(1)
                program = programs.Program(SOURCE[begin:], adagrad)
                more, prefix = parts(program, Saver(), prefix, 4 if begin == 5 else 3)
            first += more
        assert [ring["channel"] for ring in rings()] == ["train"]
    assert first == whole


@pytest.mark.parametrize("second_initializes, restores, warnings", [
    pytest.param(True, False, 1, id="initialized"), pytest.param(False, False, 0, id="trained on"),
    pytest.param(True, True, 0, id="restored")])
def test_a_session_whose_rows_another_graph_has_initialized_is_warned_once(
        second_initializes, restores, warnings, tmp_path, caplog):
    with programs.ascpipe():
        first = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        saver = Saver()
        with programs.session() as run:
            first.initialise(run)
            for _ in SOURCE:
                run.run(first.train)
            prefix = saver.save(run, str(tmp_path / "model"), global_step=1)
            with tf.Graph().as_default():
                second = programs.Program(SOURCE, adagrad)
                with programs.session() as later:
                    if second_initializes:
                        second.initialise(later)
                    else:
                        Saver().restore(later, prefix)
                        later.run(second.iterator.initializer)
                    later.run(second.train)
            for _ in range(0 if restores else 2):
                read_here(first, run)
        with programs.session() as run:
            saver.restore(run, prefix)
            read_here(first, run)
    said = [record.getMessage() for record in caplog.records if "another graph" in record.getMessage()]
    assert len(said) == warnings and all("initialized the tables" in line for line in said)


class TestRefusals:
    """What does not go together is named, and nothing is changed."""

    @pytest.fixture
    def running(self):
        with programs.ascpipe():
            program = programs.Program(SOURCE, adagrad)
            with programs.session() as run:
                program.initialise(run)
                yield program, run
                assert len([run.run(program.train) for _ in range(3)]) == 3

    def test_a_graph_that_trains_together_what_was_trained_apart(self, running):
        with tf.Graph().as_default():
            tables = [programs.table("item"), programs.table("new")]
            specs = [FeatureSpec(table.table_name, index_key="c") for table in tables]
            _, batch = programs.insert(SOURCE, specs)
            rows = [sparse_lookup(table, spec, batch=batch) for table, spec in zip(tables, specs)]
            programs.optimizer("adagrad", 0.3).minimize(
                tf.add_n([tf.reduce_sum(row) for row in rows]), var_list=[table.variable for table in tables])
            with pytest.raises(NotBuiltYetError, match="E600: .*one dataset trains 'item' together with other tables"):
                programs.start()

    def test_a_graph_that_trains_apart_what_was_trained_together(self, running):
        with tf.Graph().as_default():
            losses, variables = [], []
            for name in ("user", "item"):
                table, spec = programs.table(name), FeatureSpec(name, index_key="c")
                losses.append(tf.reduce_sum(sparse_lookup(table, spec, batch=programs.insert(SOURCE, [spec])[1])))
                variables.append(table.variable)
            programs.optimizer("adagrad", 0.3).minimize(tf.add_n(losses), var_list=variables)
            with pytest.raises(NotBuiltYetError, match="E600: .*2 datasets train tables that one dataset"):
                programs.start()

    def test_tables_of_two_graphs_that_were_created_at_the_same_time(self, running):
        graphs = [tf.Graph(), tf.Graph()]
        for graph, name in zip(graphs, ("new", "newer")):
            with graph.as_default():
                table, spec = programs.table(name), FeatureSpec(name, index_key="c")
                _, batch = programs.insert(PROBES, [spec], training=False)
                sparse_lookup(table, spec, is_train=False, batch=batch)
        with graphs[0].as_default():
            programs.start()
        with graphs[1].as_default(), pytest.raises(ValueError, match="'newer' were created before start_asc_pipeline"):
            programs.start()
