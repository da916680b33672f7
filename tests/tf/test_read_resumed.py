"""Programs in which batches are filtered, accumulated, evaluated or looked up as tensors resume bit by bit."""
import contextlib
import itertools

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.reader import open_checkpoint
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer
from tests.support import tfrecords
from tests.support.covering import some
from tests.support.examples import example, feature
from tests.tf import twin_programs
from tests.tf.test_read_positions import ONE_THREAD, in_parts, program, read, records, whole

v1 = tf.compat.v1


@pytest.fixture
def files(tmp_path):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), records(count)) for name, count in
            (("a", 30), ("b", 47))]


def saved_reads(prefix):
    with open_checkpoint(prefix) as checkpoint:
        return checkpoint.position.reads


@pytest.mark.parametrize("background", [False, True])
def test_a_save_before_the_first_step_after_a_restore_has_the_position(files, tmp_path, background):
    """As CheckpointSaverHook does when a session is created."""
    expected = whole(lambda: read(files))
    with program(lambda: read(files)) as run:
        found = run.begin().steps(7)
        prefix = run.saver.save(run.session, str(tmp_path / "first"))
    for name in ("second", "third"):
        with program(lambda: read(files)) as run:
            run.saver.restore(run.session, prefix)
            again = run.saver.save(run.session, str(tmp_path / name), background=background)
            asc.wait_for_save()
        assert saved_reads(again) == saved_reads(prefix)
        prefix = again
    with program(lambda: read(files)) as run:
        run.saver.restore(run.session, prefix)
        assert found + run.begin().steps() == expected


def test_a_restore_between_steps_sets_the_position_of_the_next_save(files, tmp_path):
    with program(lambda: read(files)) as run:
        run.begin().steps(4)
        prefix = run.saver.save(run.session, str(tmp_path / "first"))
        run.steps(5)
        run.saver.restore(run.session, prefix)
        assert saved_reads(run.saver.save(run.session, str(tmp_path / "second"))) == saved_reads(prefix)
        assert saved_reads(prefix)["training"].consumed == 32


def test_a_position_that_the_data_does_not_have_is_an_error_each_time(tmp_path):
    """A file of the same name and size has fewer records."""
    one = example([("user", feature("int64", [1, 1])), ("label", feature("float32", [1]))])
    path = tmp_path / "a.tfrecord"
    tfrecords.write(path, [one] * 60)
    with program(lambda: read([str(path)])) as run:
        run.begin().steps(5)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    size = path.stat().st_size
    longer = (one + example([("more", feature("string", [b"x" * count]))]) for count in itertools.count(1000))
    for last in longer:
        tfrecords.write(path, [one] * 10 + [last])
        if path.stat().st_size == size:
            break
    with program(lambda: read([str(path)])) as run:
        run.saver.restore(run.session, prefix)
        for _ in range(2):
            run.begin()
            for _ in range(2):
                with pytest.raises(tf.errors.OpError, match="E334"):
                    run.session.run(run.users)


@pytest.mark.parametrize("how", ["filter", "take_while", "options"])
def test_stages_that_keep_the_position(files, tmp_path, how):
    def build():
        dataset = read(files)
        if how == "filter":
            return dataset.filter(lambda batch: tf.equal(batch["user"][0, 0] % 2, 0))
        if how == "take_while":
            return dataset.apply(tf.data.experimental.take_while(lambda batch: batch["user"][0, 0] >= 0))
        options = tf.data.Options()
        options.experimental_optimization.map_parallelization = True
        options.experimental_threading.private_threadpool_size = 2
        return dataset.map(lambda batch: {**batch, "more": batch["label"] + 1}).with_options(options)

    expected = whole(build)
    assert len(expected) == (13 if how == "filter" else 30)
    assert in_parts(build, tmp_path, [3, 4]) == expected


class Accumulating:
    """A program that sums the gradients of 3 batches, or modifies the graph, and may evaluate between steps."""

    def __init__(self, dataset, modifies=False, evaluates=None):
        table = asc.create_table(name="user", dim=4, device_vocabulary_size=64,
                                 initializer=v1.constant_initializer(0.25))
        self.train_batch, self.iterator, rows = self._looked_up(dataset, table, modifies, is_train=True)
        self.loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - self.train_batch["label"]))
        make = asc.optimizers.Adagrad(0.3)
        self.train = (make if modifies else asc.optimizers.accumulate(make, 3)).minimize(self.loss)
        self.eval_loss = self.eval_iterator = None
        if evaluates is not None:
            batch, self.eval_iterator, rows = self._looked_up(evaluates, table, modifies, is_train=False)
            self.eval_loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, [1, 2]) - batch["label"]))
        self.saver = asc.Saver()
        self.modifies = modifies
        if modifies:
            modify_graph_and_start_emb_cache(dump_graph=False)
        else:
            asc.start()

    def _looked_up(self, dataset, table, modifies, is_train):
        if modifies:
            iterator = v1.data.make_initializable_iterator(dataset.prefetch(4))
            batch = iterator.get_next()
            return batch, iterator, asc.sparse_lookup(table, batch["user"], batch=batch, training=is_train)
        spec = asc.FeatureSpec("user", table_name="user")
        iterator = v1.data.make_initializable_iterator(
            dataset.map(asc.insert_function([spec], training=is_train)).prefetch(4))
        batch = iterator.get_next()
        return batch, iterator, asc.sparse_lookup(table, spec, batch=batch, training=is_train)

    def run(self, prefix=None, steps=10 ** 6, save_to=None):
        """Restore, train, evaluate after every third step, and save."""
        found = []
        with v1.Session(config=v1.ConfigProto(**ONE_THREAD)) as session:
            session.run(v1.global_variables_initializer())
            if prefix is not None:
                self.saver.restore(session, prefix)
            session.run(get_initializer(True) if self.modifies else self.iterator.initializer)
            if self.eval_loss is not None:
                session.run(get_initializer(False) if self.modifies else self.eval_iterator.initializer)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while len(found) < steps:
                    if self.eval_loss is not None and len(found) % 3 == 2:
                        session.run(self.eval_loss)
                    loss, users, _ = session.run([self.loss, self.train_batch["user"], self.train])
                    found.append((loss.tobytes(), users.tolist()))
            return found, self.saver.save(session, save_to) if save_to is not None else None


@pytest.mark.parametrize("way", some(["accumulate", "evaluate", "modify", "modify and evaluate"],
                                     "accumulate", "modify and evaluate"))
def test_a_program_resumes_bit_by_bit(files, tmp_path, way):
    def run(*arguments):
        with twin_programs.ascpipe():
            evaluates = read(files, epochs=None, seed=8) if "evaluate" in way else None
            return Accumulating(read(files), "modify" in way, evaluates).run(*arguments)

    expected, _ = run()
    assert len(expected) == 30
    found, prefix = [], None
    for number, steps in enumerate([4, 7, 10 ** 6]):
        part, prefix = run(prefix, steps, str(tmp_path / str(number)))
        found += part
        assert saved_reads(prefix)["training"].consumed
    assert found == expected


def test_batches_that_were_fetched_but_not_trained(files, tmp_path):
    """The position is after the batch that was trained last."""
    expected = [users for _, users in whole(lambda: read(files))]
    with program(lambda: read(files)) as run:
        run.begin().steps(3)
        run.session.run(run.users)
        run.steps(1)
        run.session.run(run.users)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(lambda: read(files)) as run:
        run.saver.restore(run.session, prefix)
        assert [users for _, users in run.begin().steps()] == expected[5:]
