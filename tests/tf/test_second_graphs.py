"""Further graphs join the pipeline that runs: they read its tables, live or as a checkpoint has them."""
import ctypes
import gc
import mmap
import os
import signal
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.errors import NoRoomForCopyError, NotSavedError
from ascpipe.errors import OutOfSharedMemoryError
from ascpipe.tf import Saver
from ascpipe.tf.checkpoints import instances
from ascpipe.tf.checkpoints.instances import Wanted, instance_of
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from tests.support.covering import some
from tests.tf import programs
from tests.tf.readers import MODES, PROBES, SOURCE, Reader, adagrad, read_here, rings, same, sized

pytestmark = pytest.mark.timeout_s(120)


@pytest.fixture(params=some(sorted(MODES), "expansion", "host"))
def mode(request, monkeypatch):
    """Where rows live; programs of this test have such tables."""
    monkeypatch.setattr(programs, "table", sized(request.param))
    return request.param


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
                workers = Process.current().running_pipeline().link.status()["workers"]
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


def test_any_checkpoint_is_restored_beside_training_and_training_goes_on_as_if_it_had_not(mode, tmp_path):
    expanding = {"use_dynamic_expansion": mode == "expansion"}
    with programs.ascpipe(**expanding):
        program = programs.Program(SOURCE, adagrad, eval_source=PROBES)
        saver = Saver()
        with programs.session() as run:
            program.initialise(run)
            losses, prefixes, expected = [], [], []
            for step in range(3):
                losses.append(run.run([program.loss, program.train])[0])
                prefixes.append(saver.save(run, str(tmp_path / "model"), global_step=step))
                expected.append(read_here(program, run))
            readers = [Reader(PROBES, saver=True) for _ in range(2)]
            with readers[0].session() as older, readers[1].session() as other:
                readers[0].saver.restore(older, prefixes[0])
                readers[1].saver.restore(other, prefixes[2])  # the state that the tables have
                assert same(readers[1].read(other, len(PROBES)), expected[2])
                readers[1].saver.restore(other, prefixes[1])
                losses.append(run.run([program.loss, program.train])[0])
                assert same(readers[0].read(older, len(PROBES)), expected[0])
                assert same(readers[1].read(other, len(PROBES)), expected[1])
                with pytest.raises(NotSavedError, match="E510.*this session reads the tables of a restored checkpoint"):
                    readers[1].saver.save(other, str(tmp_path / "mixed"))
                other.run(readers[1].initialize)
                now = read_here(program, run)
                assert same(readers[1].read(other, len(PROBES)), now) and not same(now, expected[1])
                losses += [run.run([program.loss, program.train])[0] for _ in range(2)]
                assert same(readers[0].read(older, len(PROBES)), expected[0])
            saver.restore(run, prefixes[2])
            assert run.run([program.loss, program.train])[0] is not None
    assert losses == programs.our_losses(SOURCE, adagrad, **expanding)[:6]


class ManyRows:
    """A checkpoint, as far as an instance reads it: 2**22 rows of zeros, 96 MiB with their keys."""

    prefix, count = "many-0", 1 << 22

    def arrays(self, _table, _pieces, _rank, _ranks):
        yield np.arange(self.count), np.zeros((self.count, programs.DIM), np.float32)


def resident_bytes():
    """Resident memory without what malloc keeps for the next step (ADR 36)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def test_the_copy_of_a_checkpoint_goes_with_its_session():
    with programs.ascpipe():
        reader = Reader(PROBES)
        state = GraphState.of(reader.graph)
        spec = TableSpec("user", programs.DIM, "int64", (), ManyRows.count, 0, None, None)
        Process.current().deferred.start(reader.graph)
        with reader.session() as run:
            before = resident_bytes()
            with instance_of([Wanted(reader.tables[0].shape.number, ManyRows(), spec)]) as number:
                state.attach(run, number)
            assert not state.is_live(run) and resident_bytes() > before + (80 << 20)
        del run
        assert resident_bytes() < before + (20 << 20)


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
                tf.compat.v1.Variable(1.0, name="other")
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
        ({"dim": 8}, "has dim 4, but this graph has 8"),
        ({"device_vocabulary_size": 101}, "has device_vocabulary_size 100, but this graph has 101"),
        ({"host_vocabulary_size": 100}, "has host_vocabulary_size 0, but this graph has 100"),
        ({"key_dtype": tf.int32}, "has key_dtype int64, but this graph has int32")])
    def test_a_table_that_is_not_the_same(self, running, changed, words):
        arguments = {"key_dtype": tf.int64, "dim": programs.DIM, "device_vocabulary_size": 100, **changed}
        with tf.Graph().as_default():
            item = create_table(name="item", emb_initializer=tf.compat.v1.zeros_initializer(), **arguments)
            spec = FeatureSpec("c", table_name="item", index_key="c")
            _, batch = programs.insert(PROBES, [spec], training=False)
            sparse_lookup(item, spec, is_train=False, batch=batch)
            with pytest.raises(ValueError, match="Table 'item': the graph whose pipeline runs " + words):
                programs.start()

    def test_a_graph_that_trains_with_another_optimizer(self, running):
        with tf.Graph().as_default(), pytest.raises(ValueError, match="'user': .* has the optimizer slots .*Adagrad"):
            programs.Program(SOURCE, lambda: programs.optimizer("lazy_adam", 0.05))
            programs.start()

    def test_a_table_after_the_start_of_its_graph(self, running):
        with pytest.raises(OSError, match="E263: .*Create all tables before"):
            programs.table("new")
        reader = Reader(PROBES)
        with reader.graph.as_default(), pytest.raises(OSError, match="E263: .*Create all tables before"):
            programs.table("user")


def test_a_copy_for_which_there_is_no_memory_is_an_error_with_numbers(monkeypatch):
    def refuse(need, what):
        raise OutOfSharedMemoryError(what, need, "1.0 MiB free")

    monkeypatch.setattr(instances.memory, "require", refuse)
    spec = TableSpec("t", 4, "int64", (), 1000, 0, None, None)
    with pytest.raises(NoRoomForCopyError, match=r"model-7 need [0-9]+ bytes.*1\.0 MiB free") as told:
        with instance_of([Wanted(0, types.SimpleNamespace(prefix="model-7"), spec)]):
            pass
    assert told.value.need_bytes > 1000 * (8 + 4 * 4)
