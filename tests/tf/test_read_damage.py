"""Damaged files: an error that names the file and the record, or records that are skipped. Never a crash."""
import os
import random
import re

import numpy as np
import psutil
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from tests.support import forked_calls, tfrecords, tree
from tests.support.examples import example, feature
from tests.support.tensorflows import not_read_ahead, text_of

v1 = tf.compat.v1
pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]

COUNT, BATCH = 40, 8
SPECS = {"user": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.int64)}
DAMAGE = re.compile(r"E33[0-7]: ")


def record(number):
    return example([("user", feature("int64", [number])), ("tags", feature("int64", list(range(number % 5))))])


RECORDS = [tfrecords.record(record(number)) for number in range(COUNT)]


class Result:
    """What a program read.

    Attributes:
        users: ids of the records, in order.
        errors: texts of the errors of batches.
        refused: text of the error of ``asc.data.read``, or None.
    """

    def __init__(self):
        self.users, self.errors, self.refused = [], [], None


def users_of(batch):
    """The ids of a batch of ``SPECS``, whose other features are functions of them."""
    users, tags = batch["user"].tolist(), batch["tags"]
    assert tags.values.tolist() == [tag for user in users for tag in range(user % 5)]
    assert tags.dense_shape[0] == len(users)
    return users


def read(path, after_first=None, specs=SPECS, users_of=users_of, first=0, **given):
    """Read all batches of a file. ``after_first`` is called after batch number ``first``."""
    found = Result()
    with tf.Graph().as_default(), v1.Session() as session:
        try:
            dataset = asc.data.read(str(path), specs, BATCH, **{"read_ahead": 1, **given})
        except AscpipeError as error:
            found.refused = str(error)
            return found
        following = v1.data.make_one_shot_iterator(not_read_ahead(dataset)).get_next()
        for number in range(1000):
            try:
                batch = session.run(following)
            except tf.errors.OutOfRangeError:
                return found
            except tf.errors.OpError as error:
                found.errors.append(text_of(error))
                if len(found.errors) > 30:  # the data set cannot be opened
                    return found
                continue
            found.users += users_of(batch)
            if number == first and after_first is not None:
                after_first()
    raise AssertionError("the data has no end")


def mutated(draw, content, records=RECORDS):
    """Content of a file of records with one to three changes of any kind, most of them of bits of records."""
    content = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 3])):
        kind = draw.choice(["bit", "bit", "bit", "length", "cut", "zeros", "insert", "remove", "copy"])
        at = draw.randrange(len(content))
        starts = np.cumsum([0] + [len(one) for one in records]).tolist()
        if kind == "bit":
            content[at] ^= 1 << draw.randrange(8)
        elif kind == "length":  # with a good checksum: any length
            start = draw.choice(starts[:-1])
            length = draw.choice([0, 1, 2 ** 63, 2 ** 64 - 1, 2 ** 40, 2 ** 31, 10 ** 6, draw.randrange(200)])
            content[start:start + 12] = tfrecords.header(length)
        elif kind == "cut":
            del content[at:]
        elif kind == "zeros":
            content[at:at + 30] = bytes(len(content[at:at + 30]))
        elif kind == "insert":
            content[at:at] = bytes([draw.randrange(256)])
        elif kind == "remove":
            del content[at:at + draw.randrange(1, 40)]
        else:
            first, last = sorted((draw.randrange(COUNT), draw.randrange(COUNT)))
            content[starts[first]:starts[first]] = content[starts[last]:starts[last + 1]]
        if not content:
            return bytes(content)
    return bytes(content)


def is_part_of(found, allowed):
    rest = iter(allowed)
    return all(one in rest for one in found)


def require_named(texts, path):
    for text in texts:
        assert DAMAGE.search(text), text
        assert str(path) in text, text


@pytest.mark.parametrize("mutations", [30, pytest.param(5000, marks=[pytest.mark.long, pytest.mark.timeout_s(2400)])])
def test_mutated_files_are_errors_or_skipped_and_never_wrong(tmp_path, seed, mutations):
    draw = random.Random(seed)
    good = b"".join(RECORDS)
    outcomes = {"refused": 0, "errors": 0, "as written": 0}
    for number in range(mutations):
        path = tmp_path / "{}.tfrecord".format(number)
        is_indexed = number % 2 == 0
        path.write_bytes(good)
        stat = os.stat(str(path))
        if is_indexed:  # bits change after the index was built, and the time of the file does not tell it
            assert read(path).users == list(range(COUNT))
        content = mutated(draw, good)
        with open(str(path), "r+b") as file:
            file.write(content)
            file.truncate(len(content))
        os.utime(str(path), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        for skip in (False, True):
            found = read(path, on_bad_record="skip" if skip else "error", readers=1 + number % 3)
            if found.refused is not None:
                outcomes["refused"] += 1
                assert re.match("E(277|33[0-7]): ", found.refused) and str(path) in found.refused, found.refused
                continue
            require_named(found.errors, path)
            outcomes["errors" if found.errors else "as written"] += 1
            assert set(found.users) <= set(range(COUNT))
            if skip and not found.errors:
                assert len(found.users) > COUNT // 8
        path.unlink()
        for index in tmp_path.glob(".*.ascindex"):
            index.unlink()
    assert min(outcomes.values()) > mutations // 20, outcomes


@pytest.mark.parametrize("places", [[0], [7, 8, 9], [39], [1, 12, 20, 33]])
def test_the_rest_of_skipped_records_is_the_same(tmp_path, places):
    content = bytearray(b"".join(RECORDS))
    starts = np.cumsum([0] + [len(one) for one in RECORDS])
    for place in places:
        content[starts[place] + 12] ^= 1  # data of the record
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content)
    assert read(path, on_bad_record="skip").users == [number for number in range(COUNT) if number not in places]
    found = read(path)
    assert len(found.errors) == len({place // BATCH for place in places})
    require_named(found.errors, path)
    assert re.search("E330: .*[rR]ecord {} ".format(places[0]), found.errors[0]), found.errors[0]


SKIPS = """
import sys, warnings
warnings.simplefilter("ignore")
import tensorflow.compat.v1 as tf
import ascpipe.tf as asc
tf.disable_v2_behavior()
features = {"user": tf.io.FixedLenFeature([], tf.int64)}
clicks = asc.data.read(sys.argv[1], features, 240, on_bad_record="skip")
batch = tf.data.make_one_shot_iterator(clicks).get_next()
with tf.Session() as session:
    print(len(session.run(batch)["user"]))
"""


def test_the_number_of_skipped_records_is_logged(tmp_path):
    """The first ten records with their reasons, and the number at each power of ten."""
    path = tfrecords.write(tmp_path / "a.tfrecord", [
        example([("user", feature("int64" if number % 2 else "float32", [number]))]) for number in range(240)])
    environment = {**os.environ, "PYTHONPATH": str(tree.ROOT), "TF_CPP_MIN_LOG_LEVEL": "0"}
    code, out, err = forked_calls.python(["-c", SKIPS, path], tmp_path, environment, 100.0)
    assert (code, out) == (0, "120\n"), err
    said = [line for line in err.splitlines() if "ascpipe: skipped record" in line]
    assert len(said) == 11
    assert "has skipped 10 records so far; the next message comes after 100" in said[9]
    assert "has skipped 100 records so far" in said[10]


@pytest.mark.parametrize("bad", [
    b"", b"\xff", example([("user", feature("float32", [1.0]))]), example([("user", feature("int64", [1, 2]))]),
    example([("user", feature("int64", []))]), example([("tags", feature("int64", [1]))]),
    example([("user", feature("int64", [1])), ("tags", feature("string", [b"x"]))]), b"\x0a\xff\xff\xff\xff\x0f"],
    ids=["0 bytes", "no message", "type", "two values", "no value", "missing", "type of tags", "length"])
def test_records_without_the_features(tmp_path, bad):
    path = tfrecords.write(tmp_path / "a.tfrecord", [record(0), record(1), bad, *map(record, range(3, 20))])
    rest = [0, 1, *range(3, 20)]
    assert read(path, on_bad_record="skip").users == rest
    found = read(path)
    assert found.users == rest[7:]
    assert len(found.errors) == 1
    assert re.search("E337: record 2 of {} ".format(re.escape(path)), found.errors[0])


def test_a_feature_that_occurs_twice_has_the_last_value_as_in_tensorflow(tmp_path):
    twice = example([("user", feature("int64", [9])), ("user", feature("int64", [4])),
                     ("tags", feature("int64", list(range(4))))])
    path = tfrecords.write(tmp_path / "a.tfrecord", [twice])
    with tf.Graph().as_default(), v1.Session() as session:
        expected = session.run(v1.io.parse_example([twice], SPECS)["user"]).tolist()
    assert read(path).users == expected


@pytest.mark.parametrize("how", ["replaced", "grown", "truncated", "deleted", "index deleted", "index changed"])
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.each_value
def test_files_that_change_while_they_are_read(tmp_path, how, readers):
    path = tmp_path / "a.tfrecord"
    more = example([("more", feature("string", [b"x" * 60_000]))])  # a reader has not buffered the whole file
    longer = [tfrecords.record(record(number) + more) for number in range(COUNT)]
    path.write_bytes(b"".join(longer))
    index = tmp_path / ".a.tfrecord.ascindex"

    def change():
        if how == "index deleted":
            index.unlink()
        elif how == "index changed":
            with open(str(index), "r+b") as file:
                file.seek(200)
                file.write(b"\xff" * 60)
        else:
            tfrecords.change(path, how, longer)

    found = read(path, change, readers=readers)
    require_named(found.errors, path)
    assert is_part_of(found.users, range(COUNT))
    assert len(found.users) + BATCH * len(found.errors) == COUNT
    if how == "truncated":
        assert found.errors


@pytest.mark.parametrize("changes", [20, pytest.param(200, marks=pytest.mark.long)])
def test_damaged_indexes_are_built_again(tmp_path, changes, seed):
    draw = random.Random(seed)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(RECORDS))
    index = tmp_path / ".a.tfrecord.ascindex"
    assert read(path).users == list(range(COUNT))
    good = index.read_bytes()
    for number in range(changes):
        content = bytearray(good)
        at = draw.randrange(len(content))
        if number % 3 == 0:
            del content[at:]
        else:
            content[at] ^= 1 << draw.randrange(8)
        index.write_bytes(content)
        found = read(path)
        assert (found.users, found.errors) == (list(range(COUNT)), [])


def test_huge_lengths_take_no_memory(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(RECORDS))
    stat = os.stat(str(path))
    assert read(path).users == list(range(COUNT))
    before = psutil.Process().memory_info().rss
    for length in (2 ** 30, 2 ** 35, 2 ** 63 - 1, 2 ** 64 - 1):
        with open(str(path), "r+b") as file:
            file.write(tfrecords.header(length))
        os.utime(str(path), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        found = read(path)
        require_named(found.errors, path)
        assert found.users == list(range(BATCH, COUNT))
    assert psutil.Process().memory_info().rss < before + (100 << 20)
