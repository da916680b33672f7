"""Order of the rows of Parquet files, positions in checkpoints, and programs that end while they read."""
import os
import signal

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.reference.batch_plan import epoch_batches
from tests.reference.permutation import GOLDEN, M, mix, permuted
from tests.support import forked_calls, parquets, tree
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.tf.test_read import elements
from tests.tf.test_read_positions import LENGTHS, in_parts, whole

v1 = tf.compat.v1
pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]
SPECS = {"user": tf.io.FixedLenFeature([], tf.int64)}
SIZES = (4, 9, 1, 0, 13, 7, 7)  # of row groups, in two files


@pytest.fixture
def files(tmp_path):
    paths, first = [], 0
    for name, sizes in (("a", SIZES[:4]), ("b", SIZES[4:])):
        paths.append(str(tmp_path / (name + ".parquet")))
        table = parquets.pyarrow.table(parquets.clicks(1))
        with parquets.parquet.ParquetWriter(paths[-1], table.schema) as writer:
            for size in sizes:
                writer.write_table(parquets.pyarrow.table(parquets.clicks(size, first)))
                first += size
    return paths


def seed_of(seed, group):
    return seed if group == 0 else mix((seed + GOLDEN * group) % M)


def sequence_of(seed, epoch):
    """The order of the rows: ``tfops/src/input/row_groups.h``."""
    groups = [(sum(SIZES[:number]), size) for number, size in enumerate(SIZES) if size]
    sequence = []
    for place in range(len(groups)):
        group = permuted(seed_of(seed, -1), epoch, len(groups), place)
        first, size = groups[group]
        sequence += [first + permuted(seed_of(seed, group), epoch, size, row) for row in range(size)]
    return sequence


def read(files, batch=5, **given):
    return asc.data.read(files, SPECS, batch, **given)


def users(found):
    return [[user // 7 for user in batch["user"].tolist()] for batch in found]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.each_value
def test_the_order_is_a_function_of_the_seed(files, shuffle, size, drop, monkeypatch):
    sequences = [sequence_of(11, epoch) if shuffle else list(range(41)) for epoch in range(3)]
    assert all(sorted(sequence) == list(range(41)) for sequence in sequences)
    expected = [batch for sequence in sequences for batch in epoch_batches(sequence, 5, size, drop)]
    for rank in range(size):
        monkeypatch.setattr("ascpipe.tf.data.reading._place", lambda rank=rank: (rank, size))
        found = users(elements(lambda: read(files, shuffle=shuffle, seed=11, epochs=3, drop_remainder=drop)))
        assert found == [batch[rank] for batch in expected]


def test_batches_of_many_row_groups(files):
    assert users(elements(lambda: read(files, 41, shuffle=True, seed=3))) == [sequence_of(3, 0)]


def test_each_pass_has_an_order_of_its_own(files):
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(read(files, 41, shuffle=True))
        following = iterator.get_next()["user"]
        passes = []
        for _ in range(3):
            session.run(iterator.initializer)
            passes.append(session.run(following).tolist())
    assert len(set(map(tuple, passes))) == 3
    assert all(sorted(one) == [number * 7 for number in range(41)] for one in passes)


def test_an_endless_dataset_is_left_in_the_middle(files):
    for _ in range(20):
        assert len(elements(lambda: read(files, 8, epochs=None, shuffle=True), most=25)) == 25


TRAINED = {"user": tf.io.FixedLenFeature([2], tf.int64), "label": tf.io.FixedLenFeature([], tf.float32)}


@LENGTHS
@pytest.mark.parametrize("rows, restore_first", [
    (9, True), (100, False), pytest.param(9, False, marks=pytest.mark.long),
    pytest.param(100, True, marks=pytest.mark.long)])
def test_a_restored_program_reads_on_bit_by_bit(tmp_path, rows, restore_first, lengths):
    paths = [parquets.write(tmp_path / (name + ".parquet"), {
        "user": [[number * number % 37, number % 11] for number in range(count)],
        "label": parquets.pyarrow.array([number % 2 for number in range(count)], parquets.pyarrow.float32())}, rows)
        for name, count in (("a", 30), ("b", 47))]

    def build():
        return asc.data.read(paths, TRAINED, 8, shuffle=True, epochs=3)

    expected = whole(build)
    assert len(expected) == 30
    assert in_parts(build, tmp_path, lengths, restore_first=restore_first) == expected


LEAVES = """
import sys, warnings
warnings.simplefilter("ignore")
import tensorflow.compat.v1 as tf
import ascpipe.tf as asc
tf.disable_eager_execution()
features = {"user": tf.io.FixedLenFeature([], tf.int64)}
following = tf.data.make_one_shot_iterator(
    asc.data.read(sys.argv[1], features, 8, shuffle=True, epochs=None)).get_next()
session = tf.Session()
for _ in range(int(sys.argv[2])):
    session.run(following)
if sys.argv[3] == "exit":
    sys.exit(0)
if sys.argv[3] == "thread":
    import threading

    def read_on():
        while True:
            session.run(following)

    threading.Thread(target=read_on, daemon=True).start()
"""


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(tree.ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **more}


def is_ended_by_tensorflow(ended):
    """Whether TensorFlow 2.15 aborted the program: CPython ends a thread that returns from ``Session.run`` while the
    interpreter exits, and TensorFlow's wrapper, which is ``noexcept``, aborts. It does so without ascpipe, too.
    """
    code, out, err = ended
    return not IS_TENSORFLOW_1 and (code, out) == (-signal.SIGABRT, "") and err.startswith(
        "terminate called ") and "FATAL: exception not rethrown" in err


@pytest.mark.parametrize("how", ["end", "exit", "thread"])
@pytest.mark.parametrize("batches", [7])
def test_programs_end_in_the_middle_of_an_epoch(tmp_path, how, batches):
    path = parquets.write(tmp_path / "a.parquet", parquets.clicks(3000), 50)
    for _ in range(2):
        arguments = ["-c", LEAVES, path, batches, how]
        ended = forked_calls.python(arguments, tmp_path, environment(TEST_WHOLE_END="1"), 100.0)
        assert ended == (0, "", "") or how == "thread" and is_ended_by_tensorflow(ended), ended


EXPORT = """
import sys, tensorflow as tf, ascpipe.tf as asc
tf.compat.v1.disable_eager_execution()
found = asc.data.read(sys.argv[1], {"user": tf.io.FixedLenFeature([], tf.int64)}, 4)
iterator = tf.compat.v1.data.make_initializable_iterator(found)
iterator.get_next()
tf.compat.v1.train.export_meta_graph(sys.argv[2])
"""


def test_a_graph_of_another_process_reads_its_files(files, tmp_path):
    arguments = ["-W", "ignore", "-c", EXPORT, files[0], tmp_path / "graph"]
    assert forked_calls.python(arguments, tmp_path, environment(), 60.0)[0] == 0
    with tf.Graph().as_default() as graph, v1.Session() as session:
        tf.import_graph_def(v1.MetaGraphDef.FromString((tmp_path / "graph").read_bytes()).graph_def, name="other")
        session.run(graph.get_operation_by_name("other/MakeIterator"))
        assert session.run("other/IteratorGetNext:0").tolist() == [0, 7, 14, 21]


ENDED = """
import sys, warnings
warnings.simplefilter("ignore")
import tensorflow.compat.v1 as tf
import ascpipe.tf as asc
from ascpipe.tf.running import decoding
from ascpipe.tfops import load
from tests.support.tensorflows import text_of
tf.disable_eager_execution()
features = {"user": tf.io.FixedLenFeature([], tf.int64)}
following = tf.data.make_one_shot_iterator(asc.data.read(sys.argv[1], features, 10)).get_next()
with tf.Session() as session:
    session.run(following)
    decoding._unregister(load.library(), -1)
    for _ in range(3):
        session.run(following)  # of the row groups that are in memory
    decoding._unregister(load.library(), decoding.os.getpid())
    for _ in range(15):
        try:
            session.run(following)
        except tf.errors.CancelledError as error:
            print(text_of(error).splitlines()[0].replace(sys.argv[1], "PATH"))
            break
"""


def test_at_the_end_of_the_interpreter_no_row_group_is_decoded(tmp_path):
    path = parquets.write(tmp_path / "a.parquet", parquets.clicks(300), 20)
    code, out, err = forked_calls.python(["-c", ENDED, path], tmp_path, environment(), 100.0)
    assert (code, out) == (0, "the program ended while the dataset was reading PATH\n"), err
