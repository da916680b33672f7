"""``asc.data.read``: batches equal the results of TensorFlow's parser, and have the order of ``ascpipe.data.order``."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.data.order import BatchPlan, Position
from ascpipe.errors import AscpipeError
from tests.support import tfrecords
from tests.support.examples import example, feature

v1 = tf.compat.v1

SPECS = {"label": tf.io.FixedLenFeature([], tf.float32), "dense": tf.io.FixedLenFeature([3], tf.float32),
         "user": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.int64),
         "query": tf.io.FixedLenFeature([1], tf.string)}
DENSE = {name: SPECS[name] for name in ("label", "user", "dense")}


@pytest.fixture
def files(tmp_path):
    """Three files with 70 records."""
    return [tfrecords.write(tmp_path / "part-{}.tfrecord".format(number), tfrecords.clicks(count, first))
            for number, (first, count) in enumerate([(0, 30), (30, 7), (37, 33)])]


def elements(build, most=1000, feed=None):
    """The elements of a dataset, as numpy values."""
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(build())
        following = iterator.get_next()
        session.run(iterator.initializer)
        found = []
        while len(found) < most:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
        return found


def parsed(files, specs, batch_size, *, drop=False):
    """What a program of TensorFlow reads."""
    return elements(lambda: tf.data.TFRecordDataset(files).batch(batch_size, drop_remainder=drop).map(
        lambda records: tf.io.parse_example(records, specs)))


def require_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert list(ours) == list(theirs)
        for name, value in theirs.items():
            for a, b in zip(tf.nest.flatten(ours[name]), tf.nest.flatten(value)):
                a, b = np.asarray(a), np.asarray(b)
                assert (a.dtype, a.shape, a.tobytes() if a.dtype != object else a.tolist()) == (
                    b.dtype, b.shape, b.tobytes() if b.dtype != object else b.tolist()), name


def users(found):
    return [batch["user"].tolist() for batch in found]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("specs", [DENSE, SPECS], ids=["dense", "sparse"])
@pytest.mark.each_value
def test_batches_equal_those_of_tensorflow(files, specs, drop):
    found = elements(lambda: asc.data.read(files, specs, 16, drop_remainder=drop))
    require_same(found, parsed(files, specs, 16, drop=drop))
    assert len(found) == (4 if drop else 5)


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.each_value
def test_the_order_is_that_of_the_plan(files, readers, ranks, monkeypatch):
    plan = BatchPlan(70, 8, ranks=ranks, epochs=2, seed=5)
    for rank in range(ranks):
        monkeypatch.setattr("ascpipe.tf.data.reading._place", lambda rank=rank: (rank, ranks))
        expected, position = [], Position(0, 0)
        while position is not None:
            numbers, position = plan.batch(position, rank)
            expected.append([number * 7 for number in numbers])
            position = plan.moved(position, 0)
        found = users(elements(lambda: asc.data.read(files, DENSE, 8, shuffle=True, seed=5, epochs=2,
                                                     readers=readers)))
        assert found == expected


def test_each_iterator_is_a_pass_with_an_order_of_its_own(files):
    with tf.Graph().as_default(), v1.Session() as session:
        iterator = v1.data.make_initializable_iterator(asc.data.read(files, DENSE, 70, shuffle=True))
        following = iterator.get_next()["user"]
        passes = []
        for _ in range(3):
            session.run(iterator.initializer)
            passes.append(session.run(following).tolist())
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(following)
    assert len(set(map(tuple, passes))) == 3
    assert all(sorted(one) == [number * 7 for number in range(70)] for one in passes)


def test_stages_of_tensorflow_follow_as_after_any_dataset(files):
    found = elements(lambda: asc.data.read(files, DENSE, 10).skip(1).take(3).map(
        lambda batch: (batch, batch.pop("label"))).prefetch(2))
    assert [batch["user"].tolist() for batch, _ in found] == [
        [number * 7 for number in range(first, first + 10)] for first in (10, 20, 30)]


def test_one_shot_iterators(files):
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(asc.data.read(files, SPECS, 32)).get_next()
        assert following["tags"].dense_shape.shape.as_list() == [2]
        assert session.run(following)["user"].tolist() == [number * 7 for number in range(32)]


def test_the_batch_dimension_is_known_if_all_batches_are_full(files):
    with tf.Graph().as_default():
        full = v1.data.get_output_shapes(asc.data.read(files, DENSE, 16, drop_remainder=True))
        assert full["dense"].as_list() == [16, 3]
        for options in ({}, {"drop_remainder": True, "on_bad_record": "skip"}):
            assert v1.data.get_output_shapes(asc.data.read(files, DENSE, 16, **options))["dense"].as_list() == [None, 3]


@pytest.mark.parametrize("shape", [[1], None], ids=["fixed", "any number"])
@pytest.mark.parametrize("buckets", [1, 1000, 2 ** 40, 2 ** 62])
@pytest.mark.each_value
def test_hashed_strings_equal_those_of_tensorflow(files, buckets, shape):
    found = elements(lambda: asc.data.read(files, {"ad": asc.data.hashed("query", buckets, shape)}, 70))
    spec = {"ad": tf.io.VarLenFeature(tf.string) if shape is None else tf.io.FixedLenFeature(shape, tf.string)}

    def hashed(records):
        texts = tf.io.parse_example(records, {"query": spec["ad"]})["query"]
        if shape is not None:
            return {"ad": tf.strings.to_hash_bucket_fast(texts, buckets)}
        ids = tf.strings.to_hash_bucket_fast(texts.values, buckets)
        return {"ad": tf.SparseTensor(texts.indices, ids, texts.dense_shape)}

    require_same(found, elements(lambda: tf.data.TFRecordDataset(files).batch(70).map(hashed)))


def test_fingerprints_are_the_lower_63_bits(files):
    (found,) = elements(lambda: asc.data.read(files, {"ad": asc.data.hashed("query", shape=[1])}, 70))
    (half,) = elements(lambda: asc.data.read(files, {"ad": asc.data.hashed("query", 2 ** 62, shape=[1])}, 70))
    assert (found["ad"] >= 0).all()
    assert (found["ad"] % 2 ** 62 == half["ad"]).all()
    assert (found["ad"] >= 2 ** 62).any()


def test_missing_hashed_strings_have_the_default(files):
    (found,) = elements(lambda: asc.data.read(files, {"ad": asc.data.hashed("none", 97, default_value="x")}, 70))
    with tf.Graph().as_default(), v1.Session() as session:
        assert (found["ad"] == session.run(tf.strings.to_hash_bucket_fast("x", 97))).all()


def test_specs_that_the_fast_parser_does_not_know(tmp_path):
    specs = {"padded": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
             "pairs": tf.io.SparseFeature("index", "value", tf.float32, 100)}
    records = [example([("padded", feature("int64", list(range(number % 4)))),
                        ("index", feature("int64", [3 * place for place in range(number % 3)])),
                        ("value", feature("float32", [0.5] * (number % 3)))]) for number in range(20)]
    path = tfrecords.write(tmp_path / "a.tfrecord", records)
    require_same(elements(lambda: asc.data.read(path, specs, 16)), parsed([path], specs, 16))


@pytest.mark.parametrize("given, code", [
    ({"features": {}}, "E26"), ({"features": {"a": 1}}, "E26"), ({"batch_size": 0}, "E260"), ({"epochs": 0}, "E260"),
    ({"shuffle": 1}, "E260"), ({"on_bad_record": "ignore"}, "E260"), ({"files": "none"}, "E277"),
    ({"files": []}, "E277"), ({"features": {"a": asc.data.hashed("x"), "x": DENSE["label"]}}, "E26"),
])
def test_wrong_arguments_are_refused(files, given, code):
    with tf.Graph().as_default(), pytest.raises(AscpipeError, match=code):
        asc.data.read(**{"files": files, "features": DENSE, "batch_size": 8, **given})


@pytest.mark.parametrize("compressions", [["GZIP", "GZIP", "GZIP"], ["", "ZLIB", ""]], ids=["all", "one"])
def test_compressed_files_are_read_in_order(tmp_path, compressions):
    paths = [tfrecords.write(tmp_path / "{}.tfrecord".format(number), tfrecords.clicks(30, 30 * number), compression)
             for number, compression in enumerate(compressions)]
    found = elements(lambda: asc.data.read(paths, SPECS, 16, epochs=2))
    plain = [tfrecords.write(tmp_path / "plain-{}.tfrecord".format(number), tfrecords.clicks(30, 30 * number))
             for number in range(3)]
    require_same(found, 2 * parsed(plain, SPECS, 16))


def test_compressed_files_are_shuffled_in_windows(tmp_path):
    """A window has 32 MiB: here 33 records of a MiB."""
    records = [example([("user", feature("int64", [number])), ("text", feature("string", [bytes(2 ** 20)]))])
               for number in range(80)]
    path = str(tmp_path / "a.tfrecord.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as file:  # `tfrecords` would need long for the checksums
        for record in records:
            file.write(record)
    found = elements(lambda: asc.data.read(path, {"user": SPECS["user"]}, 7, shuffle=True, seed=3, epochs=2))
    plan = BatchPlan(80, 7, epochs=2, seed=3, window=31)
    expected, position = [], Position(0, 0)
    while position is not None:
        numbers, position = plan.batch(position, 0)
        expected.append(numbers)
        position = plan.moved(position, 0)
    assert users(found) == expected
    first = [number for numbers in expected for number in numbers][:80]
    assert [sorted(first[begin:begin + 31]) for begin in (0, 31, 62)] == [
        list(range(begin, min(begin + 31, 80))) for begin in (0, 31, 62)]
    assert first[:31] != list(range(31))


def test_a_damaged_record_of_a_compressed_file_is_skipped_alone(tmp_path):
    content = bytearray(tfrecords.content(tfrecords.clicks(40)))
    content[content.index(b"text 17")] ^= 1
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(tfrecords.compressed(bytes(content), "GZIP"))
    with pytest.raises(tf.errors.DataLossError, match="E330: .*record 17 at byte .* of the decompressed content"):
        elements(lambda: asc.data.read(str(path), DENSE, 16))
    found = elements(lambda: asc.data.read(str(path), DENSE, 16, on_bad_record="skip"))
    assert [number for batch in users(found) for number in batch] == [7 * n for n in range(40) if n != 17]
