"""Further graphs join the pipeline that runs: they read its tables, or train them on, and disturb nothing."""
import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from ascpipe.tf import Saver
from ascpipe.tf.configuration import Configuration
from ascpipe.tf.not_built import NotBuiltYetError
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.tf import programs

SOURCE = programs.batches(12)
PROBES = programs.batches(6, seed=5)
MODES = {"device": {"device_vocabulary_size": 100},
         "host": {"device_vocabulary_size": 30, "host_vocabulary_size": 100},
         "expansion": {"device_vocabulary_size": 1}}

pytestmark = pytest.mark.timeout_s(120)


def adagrad():
    return programs.optimizer("adagrad", 0.3)


@pytest.fixture(params=sorted(MODES))
def mode(request, monkeypatch):
    """Where rows live; programs of this test have such tables."""
    def sized(name, rows=100, dim=programs.DIM, initializer=None):
        return create_table(tf.int64, dim, name, tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11),
                            **MODES[request.param])

    monkeypatch.setattr(programs, "table", sized)
    return request.param


class Reader:
    """A graph of its own that looks up every batch of ``source`` in evaluation."""

    def __init__(self, source, saver=False):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(1)
            self.tables = [programs.table("user"), programs.table("item")]
            features = programs.specs()
            self.iterator, self.batch = programs.insert(source, features, training=False)
            self.rows = [sparse_lookup(self.tables[place], spec, is_train=False, batch=self.batch)
                         for place, spec in zip((0, 0, 1), features)]
            self.loss = programs.model(self.rows, self.batch["label"])
            self.initialize = tf.compat.v1.global_variables_initializer()
            self.saver = Saver() if saver else None
            start_asc_pipeline()

    def session(self, **config):
        with self.graph.as_default():
            return programs.session(**config)

    def read(self, run, count):
        run.run(self.iterator.initializer)
        return [run.run(self.rows) for _ in range(count)]


def same(left, right):
    return all(np.array_equal(a, b) for one, other in zip(left, right) for a, b in zip(one, other))


def rings():
    return Configuration.get_instance().running_pipeline().status()["rings"]


def train_and_read(read, mode, eval_source=None):
    """Losses of all steps, and what ``read`` says after the steps 4 and 8 of the program and its session."""
    found = []
    with programs.ascpipe(use_dynamic_expansion=mode == "expansion"):
        program = programs.Program(SOURCE, adagrad, eval_source=eval_source)
        with programs.session() as run:
            program.initialise(run)
            losses = []
            for step in range(len(SOURCE)):
                losses.append(run.run([program.loss, program.train])[0])
                if step in (3, 7):
                    found.append(read(program, run))
    return losses, found


def read_here(program, run):
    run.run(program.eval_iterator.initializer)
    return [run.run(program.eval_rows) for _ in PROBES]


def test_a_second_graph_reads_what_was_trained_and_training_goes_on_as_if_it_had_not(mode):
    readers = []

    def read_there(_program, _run):
        """In a session of a new graph, after steps that an older one has not seen."""
        readers.append(Reader(PROBES))
        with readers[-1].session() as run:
            run.run(readers[-1].initialize)
            rows = readers[-1].read(run, len(PROBES))
        with readers[0].session() as run:  # never initialised: it reads the tables all the same
            assert same(readers[0].read(run, len(PROBES)), rows)
        assert [(ring["channel"], ring["trained"] > 0) for ring in rings()] == [("train", True), ("eval", False)]
        return rows

    losses, expected = train_and_read(read_here, mode, PROBES)
    same_losses, found = train_and_read(read_there, mode, PROBES if mode == "device" else None)
    assert same_losses == losses
    assert len(found) == 2 and all(same(*pair) for pair in zip(found, expected))
    assert not same(*found)


@pytest.mark.parametrize("rewrite", [True, False])
def test_a_session_that_was_initialised_before_a_step_reads_the_rows_after_it(rewrite):
    """Also where TensorFlow would copy an initial value into its variable, and it would be of before the step."""
    rewriter = rewriter_config_pb2.RewriterConfig(disable_meta_optimizer=not rewrite)
    options = tf.compat.v1.GraphOptions(rewrite_options=rewriter)
    with programs.ascpipe():
        program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        reader = Reader(PROBES)
        with programs.session() as run:
            program.initialise(run)
            with reader.session(graph_options=options) as other:
                other.run(reader.initialize)
                for _ in range(3):
                    run.run(program.train)
                    assert same(reader.read(other, len(PROBES)), read_here(program, run))


def test_a_second_graph_may_read_some_tables_and_other_features():
    with programs.ascpipe():
        program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            expected = read_here(program, run)[0][2]
            with tf.Graph().as_default():
                item = programs.table("item")
                spec = FeatureSpec("d", table_name="item", index_key="c")
                iterator, batch = programs.insert(PROBES, [spec], training=False)
                rows = sparse_lookup(item, spec, is_train=False, batch=batch)
                start_asc_pipeline()
                assert item.size() == len(np.unique(SOURCE[0]["c"]))
                with programs.session() as other:
                    other.run(iterator.initializer)
                    assert np.array_equal(other.run(rows), expected)
        assert [ring["channel"] for ring in rings()] == ["train", "eval", "eval"]


def test_workers_that_are_killed_after_a_stream_was_added_come_back_with_it():
    pids = set()

    def read_with_kills(_program, _run):
        if not pids:
            readers.append(Reader(PROBES))
        with readers[0].session() as run:
            run.run(readers[0].iterator.initializer)
            rows = []
            for probe in range(len(PROBES)):
                workers = Configuration.get_instance().running_pipeline().status()["workers"]
                if probe in (1, 3):
                    victim = workers[0 if probe == 1 else -1]["pid"]
                    pids.add(victim)
                    os.kill(victim, signal.SIGKILL)
                rows.append(run.run(readers[0].rows))
            return rows

    readers = []
    losses, expected = train_and_read(read_here, "device", PROBES)
    same_losses, found = train_and_read(read_with_kills, "device")
    assert len(pids) == 4 and same_losses == losses
    assert all(same(*pair) for pair in zip(found, expected))


def test_the_last_save_is_restored_beside_training_and_no_other(tmp_path):
    with programs.ascpipe():
        program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        saver = Saver()
        with programs.session() as run:
            program.initialise(run)
            prefixes = []
            for step in range(3):
                run.run(program.train)
                prefixes.append(saver.save(run, str(tmp_path / "model"), global_step=step))
            run.run(program.eval_iterator.initializer)
            expected = run.run(program.eval_loss)
            reader = Reader(PROBES, saver=True)
            with reader.session() as other:
                with pytest.raises(NotBuiltYetError, match="E600: restoring .*model-1 in a graph that only evaluates"):
                    reader.saver.restore(other, prefixes[1])
                reader.saver.restore(other, prefixes[2])
                other.run(reader.iterator.initializer)
                assert other.run(reader.loss) == expected
            losses = [run.run([program.loss, program.train])[0] for _ in range(3)]
            with reader.session() as other, pytest.raises(NotBuiltYetError, match="model-2"):
                reader.saver.restore(other, prefixes[2])
            saver.restore(run, prefixes[2])
            with reader.session() as other:
                reader.saver.restore(other, prefixes[2])  # it is what the tables were made into
    assert losses == programs.our_losses(SOURCE, adagrad)[3:6]


def test_a_save_from_a_graph_that_only_evaluates_has_all_tables_as_they_are(tmp_path):
    losses = programs.our_losses(SOURCE, adagrad)
    with programs.ascpipe():
        program = programs.Program(SOURCE, adagrad)
        saver = Saver()
        with programs.session() as run:
            program.initialise(run)
            before = [run.run([program.loss, program.train])[0] for _ in range(5)]
            dense = saver.save(run, str(tmp_path / "model"), global_step=5)
            with tf.Graph().as_default():
                item = programs.table("item")
                tf.Variable(1.0, name="other")
                spec = FeatureSpec("c", table_name="item", index_key="c")
                _, batch = programs.insert(PROBES, [spec], training=False)
                sparse_lookup(item, spec, is_train=False, batch=batch)
                start_asc_pipeline()
                with programs.session() as other:
                    other.run(tf.compat.v1.global_variables_initializer())
                    prefix = Saver().save(other, str(tmp_path / "read"), global_step=5)
    folders = [tmp_path / ("sparse-" + name) for name in ("model-5", "read-5")]
    for part in ("user/key/slice.data", "item/key/slice.data", "user/embedding/slice.data"):
        assert (folders[0] / part).read_bytes() == (folders[1] / part).read_bytes()
    assert prefix.endswith("read-5") and dense.endswith("model-5") and before == losses[:5]


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

    @pytest.mark.parametrize("changed, words", [
        ({"dim": 8}, "has dim 4, and this one 8"),
        ({"device_vocabulary_size": 101}, "has device_vocabulary_size 100, and this one 101"),
        ({"host_vocabulary_size": 100}, "has host_vocabulary_size 0, and this one 100"),
        ({"key_dtype": tf.int32}, "has key_dtype int64, and this one int32")])
    def test_a_table_that_is_not_the_same(self, running, changed, words):
        arguments = {"key_dtype": tf.int64, "dim": programs.DIM, "device_vocabulary_size": 100, **changed}
        with tf.Graph().as_default():
            item = create_table(name="item", emb_initializer=tf.compat.v1.zeros_initializer(), **arguments)
            spec = FeatureSpec("c", table_name="item", index_key="c")
            _, batch = programs.insert(PROBES, [spec], training=False)
            sparse_lookup(item, spec, is_train=False, batch=batch)
            with pytest.raises(ValueError, match="table 'item': the graph whose pipeline runs " + words):
                start_asc_pipeline()

    def test_a_table_that_is_not_there(self, running):
        with tf.Graph().as_default(), pytest.raises(
                ValueError, match="table 'new' is not among the tables of the graph whose pipeline runs: 'item', "):
            programs.table("new")

    def test_a_graph_that_trains_other_features(self, running):
        with tf.Graph().as_default():
            item = programs.table("item")
            spec = FeatureSpec("c", table_name="item", index_key="c")
            _, batch = programs.insert(SOURCE, [spec])
            loss = tf.reduce_sum(sparse_lookup(item, spec, batch=batch))
            programs.optimizer("adagrad", 0.3).minimize(loss, var_list=[item.variable])
            with pytest.raises(NotBuiltYetError, match="trains other features"):
                start_asc_pipeline()

    def test_a_graph_that_trains_after_one_that_only_evaluates(self):
        with programs.ascpipe():
            Reader(PROBES)
            with pytest.raises(NotBuiltYetError, match="E600: .* that trains after one that only evaluates"):
                programs.Program(SOURCE, adagrad)

    def test_a_graph_that_trains_with_another_optimizer(self, running):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="'user': .* has the optimizer slots .*Adagrad"):
            programs.Program(SOURCE, lambda: programs.optimizer("lazy_adam", 0.05))

    def test_a_table_after_the_start_of_its_graph(self, running):
        with pytest.raises(OSError, match="the pipeline of this graph was started"):
            programs.table("new")
        reader = Reader(PROBES)
        with reader.graph.as_default(), pytest.raises(OSError, match="the pipeline of this graph was started"):
            programs.table("user")
