"""Checkpoints have the position of ``asc.data.read``: a restored program continues with the next batch, bit by bit."""
import contextlib

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support import tfrecords
from tests.support.examples import example, feature
from tests.tf import twin_programs

v1 = tf.compat.v1
SPECS = {"user": tf.io.FixedLenFeature([2], tf.int64), "label": tf.io.FixedLenFeature([], tf.float32)}
ONE_THREAD = {"intra_op_parallelism_threads": 1, "inter_op_parallelism_threads": 1}


def records(count):
    return [example([("user", feature("int64", [number * number % 37, number % 11])),
                     ("label", feature("float32", [number % 2]))]) for number in range(count)]


@pytest.fixture
def files(tmp_path):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(name), records(count)) for name, count in
            (("a", 30), ("b", 47))]


def read(files, **given):
    return asc.data.read(files, SPECS, 8, **{"shuffle": True, "epochs": 3, **given})


def with_insert(dataset, spec):
    return dataset.map(asc.insert_function([spec])).map(lambda batch: (batch, batch["label"])).prefetch(6)


class Program:
    """A program in a session. ``steps`` returns the loss and the users of each batch that it trains.

    With a list of datasets, there is one iterator, and ``initializers`` has its initializer for each dataset.
    """

    def __init__(self, dataset, *, initialize=True):
        spec = asc.FeatureSpec("user", table_name="user")
        if isinstance(dataset, list):
            insert = asc.insert_function([spec])
            made = [each.map(insert).map(lambda batch: (batch, batch["label"])).prefetch(6) for each in dataset]
            self.iterator = v1.data.Iterator.from_structure(
                v1.data.get_output_types(made[0]), v1.data.get_output_shapes(made[0]))
            self.initializers = [self.iterator.make_initializer(each) for each in made]
        else:
            self.iterator = v1.data.make_initializable_iterator(with_insert(dataset, spec))
        features, labels = self.iterator.get_next()
        table = asc.create_table(name="user", dim=4, device_vocabulary_size=64,
                                 initializer=v1.constant_initializer(0.25))
        rows = asc.sparse_lookup(table, spec, batch=features)
        weights = v1.get_variable("weights", [8, 1], initializer=v1.constant_initializer(0.1), use_resource=False)
        logits = tf.reshape(tf.matmul(tf.reshape(rows, [-1, 8]), weights), [-1])
        self.loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        self.users = features["user"]
        optimizer = asc.optimizers.Adagrad(0.3)
        self.train = optimizer.minimize(self.loss)
        self.saver = asc.Saver()
        asc.start()
        self.session = v1.Session(config=v1.ConfigProto(**ONE_THREAD))
        if initialize:
            self.session.run(v1.global_variables_initializer())

    def begin(self):
        self.session.run(self.iterator.initializer)
        return self

    def steps(self, count=10 ** 6):
        losses = []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while len(losses) < count:
                loss, users, _ = self.session.run([self.loss, self.users, self.train])
                losses.append((loss.tobytes(), users.tolist()))
        return losses


@contextlib.contextmanager
def program(build):
    with twin_programs.ascpipe():
        made = Program(build())
        with made.session:
            yield made


def whole(build):
    with program(build) as run:
        return run.begin().steps()


def in_parts(build, folder, lengths, *, restore_first=True):
    """The losses of programs that each restore the checkpoint of the one before."""
    found = []
    prefix = None
    for length in [*lengths, None]:
        with program(build) as run:
            if not restore_first:
                run.begin()
            if prefix is not None:
                run.saver.restore(run.session, prefix)
            if restore_first:
                run.begin()
            found += run.steps(*([] if length is None else [length]))
            prefix = run.saver.save(run.session, str(folder / "model"), global_step=len(found))
    return found


#: numbers of steps of programs that continue each other
LENGTHS = pytest.mark.parametrize("lengths", [
    [1, 12], pytest.param([1, 8, 1, 12, 7], marks=pytest.mark.long)], ids=["three", "six"])


@LENGTHS
@pytest.mark.parametrize("restore_first", [True, False], ids=["restored first", "iterator first"])
def test_a_restored_program_reads_on_bit_by_bit(files, tmp_path, restore_first, lengths):
    expected = whole(lambda: read(files))
    assert len(expected) == 30
    assert in_parts(lambda: read(files), tmp_path, lengths, restore_first=restore_first) == expected


def test_ids_may_be_computed_if_another_tensor_is_not(files, tmp_path):
    def build():
        return read(files).map(lambda batch: {**batch, "user": batch["user"] * 7 % 13})

    assert in_parts(build, tmp_path, [4, 13]) == whole(build)


def test_a_batch_without_any_tensor_of_the_dataset_has_no_position(files, tmp_path, caplog):
    def build():  # arithmetic may write its result into the memory of the batch, which keeps the position
        return read(files).map(lambda batch: {"user": tf.reverse(batch["user"], [1]),
                                              "label": tf.reverse(batch["label"], [0])})

    found = in_parts(build, tmp_path, [4])
    expected = whole(build)
    assert [users for _, users in found] == [users for _, users in expected[:4] + expected]
    assert "no reading position of stream 'training'" in caplog.text


@pytest.mark.parametrize("stage", ["repeat", "skip", "shuffle"])
def test_stages_that_break_the_position_are_named(files, tmp_path, caplog, stage):
    def build():
        dataset = read(files, epochs=1)
        return {"repeat": lambda: dataset.repeat(2), "skip": lambda: dataset.skip(1),
                "shuffle": lambda: dataset.shuffle(3, seed=1)}[stage]()

    in_parts(build, tmp_path, [4])
    assert "no reading position, because of stage {}Dataset".format(stage.capitalize()) in caplog.text


def test_other_data_is_read_from_its_beginning(files, tmp_path, caplog):
    other = [tfrecords.write(tmp_path / "c.tfrecord", records(50))]
    with program(lambda: read(files)) as run:
        run.begin().steps(12)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    for given in ({"files": other}, {"files": files, "seed": 9}, {"files": files[:1]}, {"files": files[::-1]}):
        with program(lambda given=given: read(**given)) as run:
            run.saver.restore(run.session, prefix)
            found = [users for _, users in run.begin().steps()]
        assert found == [users for _, users in whole(lambda given=given: read(**given))]


def test_a_checkpoint_of_the_end_begins_a_new_pass(files, tmp_path):
    """As in programs that call ``train`` for each epoch, and evaluate in between."""
    def build():
        return read(files, epochs=1)

    orders = []
    prefix = None
    for _ in range(3):
        with program(build) as run:
            if prefix is not None:
                run.saver.restore(run.session, prefix)
            orders.append([tuple(map(tuple, users)) for _, users in run.begin().steps()])
            prefix = run.saver.save(run.session, str(tmp_path / "model"))
    assert len({tuple(order) for order in orders}) == 3
    assert len({tuple(sorted(users for batch in order for users in batch)) for order in orders}) == 1


def test_the_batch_size_may_change(files, tmp_path):
    with program(lambda: read(files, epochs=1)) as run:
        first = run.begin().steps(4)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(lambda: asc.data.read(files, SPECS, 5, shuffle=True)) as run:
        run.saver.restore(run.session, prefix)
        rest = run.begin().steps()
    found = [tuple(user) for _, users in first + rest for user in users]
    assert sorted(found) == sorted(tuple(user) for _, users in whole(lambda: read(files, epochs=1)) for user in users)


def test_a_second_graph_without_files_keeps_the_position_of_the_first(files, tmp_path):
    with program(lambda: read(files)) as run:
        first = run.begin().steps(5)
        with tf.Graph().as_default():
            v1.set_random_seed(1)
            batch = {"user": tf.zeros([4, 2], tf.int64), "label": tf.zeros([4])}
            second = Program(tf.data.Dataset.from_tensors(batch).repeat(), initialize=False)
            with second.session:
                second.begin()
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(lambda: read(files)) as run:
        run.saver.restore(run.session, prefix)
        rest = run.begin().steps()
    expected = whole(lambda: read(files))
    assert [users for _, users in first + rest] == [users for _, users in expected]


def test_variables_that_are_initialized_again_begin_with_the_first_record(files, tmp_path):
    with program(lambda: read(files)) as run:
        run.begin().steps(5)
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
    with program(lambda: read(files)) as run:
        run.saver.restore(run.session, prefix)
        run.session.run(v1.global_variables_initializer())
        found = run.begin().steps(3)
    assert found == whole(lambda: read(files))[:3]


def test_a_second_dataset_of_the_iterator_begins_anew_and_the_log_says_so(files, tmp_path, caplog):
    """Each initialization begins a pass, so only the dataset that was trained last is within a pass."""
    def build():
        return [read([name], shuffle=False, epochs=1) for name in files]

    def users(run, dataset, count):
        run.session.run(run.initializers[dataset])
        return [users for _, users in run.steps(count)]

    with program(build) as run:
        expected = [users(run, 0, 3), users(run, 1, 4)]
    with program(build) as run:
        assert [users(run, 0, 3), users(run, 1, 2)] == [expected[0], expected[1][:2]]
        prefix = run.saver.save(run.session, str(tmp_path / "model"))
        run.saver.save(run.session, str(tmp_path / "model"))
    assert len([line for line in caplog.messages if "one dataset of stream 'training'" in line]) == 1
    with program(build) as run:
        run.saver.restore(run.session, prefix)
        assert [users(run, 1, 2), users(run, 0, 3)] == [expected[1][2:], expected[0]]
