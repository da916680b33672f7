"""Files that are kept in memory because they are shuffled: the same batches, errors of changes, and bounded memory."""
import collections
import gzip
import os
import random
import re

import psutil
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.support import texts, tfrecords
from tests.support.examples import example, feature
from tests.tf import test_read_damage
from tests.tf.test_read_damage import BATCH, COUNT, SPECS, require_named

v1 = tf.compat.v1
pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]

EPOCHS = 5
KEPT = 12  #: number of a batch that is read from memory: a file of COUNT records is kept after about 40 of them
SHUFFLED = {"shuffle": True, "seed": 3, "epochs": EPOCHS}
TEXT_SPECS = {"user": tf.io.FixedLenFeature([], tf.int64), "more": tf.io.FixedLenFeature([], tf.string)}
PARTS = random.Random(5)
MORE = [bytes(PARTS.choice(b'abc ,"') for _ in range(8000)) for _ in range(COUNT)]  #: a page between two records


def record(number):
    return example([("user", feature("int64", [number])), ("tags", feature("int64", list(range(number % 5)))),
                    ("more", feature("string", [MORE[number]]))])


RECORDS = [tfrecords.record(record(number)) for number in range(COUNT)]
LINES = texts.content([[b"user", b"more"]] + [[b"%d" % number, MORE[number]] for number in range(COUNT)],
                      random.Random(1))


def read(path, after=None, **given):
    return test_read_damage.read(path, after, first=KEPT, **{**SHUFFLED, **given})


def text_users(batch):
    assert len(batch["more"]) == len(batch["user"])
    return batch["user"].tolist()


def bytes_read():
    """Number of bytes that calls of the system have read in this process."""
    return psutil.Process().io_counters().read_chars


@pytest.mark.parametrize("readers", [1, 3])
def test_a_shuffled_file_is_read_once(tmp_path, readers):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(RECORDS))
    size = path.stat().st_size
    assert sorted(read(path).users) == sorted(list(range(COUNT)) * EPOCHS)
    before = bytes_read()
    assert sorted(read(path, epochs=40, readers=readers).users) == sorted(list(range(COUNT)) * 40)
    assert bytes_read() - before < 12 * size  # and not 40 times


@pytest.mark.parametrize("how", ["replaced", "grown", "truncated", "touched", "deleted"])
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.each_value
def test_a_kept_file_that_changes_is_an_error(tmp_path, how, readers):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(RECORDS))
    found = read(path, lambda: tfrecords.change(path, how, RECORDS), readers=readers)
    require_named(found.errors, path)
    assert set(found.users) <= set(range(COUNT))
    assert len(found.users) + BATCH * len(found.errors) == COUNT * EPOCHS
    if how in ("grown", "truncated", "touched"):  # up to two batches for each reader were read before
        assert len(found.errors) >= COUNT * EPOCHS // BATCH - KEPT - 1 - 2 * readers - 1
        assert all("E331" in text for text in found.errors)
    elif readers == 1:
        assert found.errors == []


def changed_file(draw, path, kind):
    """Write a damaged file of a kind. Its size may be that of the index, and its time is."""
    whole = {"tfrecord": b"".join(RECORDS), "gzip": gzip.compress(b"".join(RECORDS), 1), "csv": LINES}[kind]
    stat = path.stat()
    if kind == "csv":
        content = texts.mutated(whole, draw)
    elif kind == "gzip":
        content = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.5:
            del content[draw.randrange(len(content)):]
    else:
        content = test_read_damage.mutated(draw, whole, RECORDS)
    with open(str(path), "r+b") as file:
        file.write(content)
        file.truncate(len(content))
    os.utime(str(path), ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("mutations", [8, pytest.param(1200, marks=[pytest.mark.long, pytest.mark.timeout_s(2400)])])
@pytest.mark.parametrize("kind", ["tfrecord", "gzip", "csv"])
def test_mutated_files_have_the_same_records_in_each_epoch(tmp_path, seed, kind, mutations):
    """The first epoch is read from the disk, and the last ones from memory. Compressed files are never kept."""
    draw = random.Random(seed)
    more = {"specs": TEXT_SPECS, "users_of": text_users, "format": "csv"} if kind == "csv" else {}
    outcomes = collections.Counter()
    memory = None
    for number in range(mutations):
        path = tmp_path / "{}.{}".format(number, kind)
        path.write_bytes({"tfrecord": b"".join(RECORDS), "gzip": gzip.compress(b"".join(RECORDS), 1),
                          "csv": LINES}[kind])
        if number % 2 == 0:  # the index is older than the damage
            assert sorted(read(path, epochs=1, **more).users) == list(range(COUNT))
        changed_file(draw, path, kind)
        for skip in (False, True):
            found = read(path, on_bad_record="skip" if skip else "error", readers=1 + number % 3, **more)
            if found.refused is not None:
                outcomes["refused"] += 1
                assert re.match("E(2[67][0-9]|33[0-7]): ", found.refused) and str(path) in found.refused, found.refused
                continue
            require_named(found.errors, path)
            outcomes["errors" if found.errors else "read"] += 1
            if kind != "csv":  # which has no checksums
                assert set(found.users) <= set(range(COUNT))
            if skip and not found.errors:
                counts = collections.Counter(found.users).values()
                assert not [count for count in counts if count % EPOCHS], counts
        path.unlink()
        for index in tmp_path.glob(".*.ascindex"):
            index.unlink()
        if number == mutations // 2:
            memory = psutil.Process().memory_info().rss
    assert len(outcomes) > 1, outcomes
    assert psutil.Process().memory_info().rss < memory + (100 << 20)


def test_the_memory_is_freed_with_the_last_iterator(tmp_path):
    path = tmp_path / "a.tfrecord"
    large = tfrecords.record(example([("user", feature("int64", [7])), ("more", feature("string", [b"x" * 16000]))]))
    path.write_bytes(large * 4000)  # 64 MB
    process = psutil.Process()
    for turn in range(2):
        with tf.Graph().as_default(), v1.Session() as session:
            iterators = [v1.data.make_one_shot_iterator(asc.data.read(
                str(path), SPECS, 64, shuffle=True, seed=1, epochs=None)).get_next()["user"] for _ in range(2)]
            session.run(iterators[turn])
            before = process.memory_info().rss
            for _ in range(300):
                session.run(iterators[turn])
            assert process.memory_info().rss > before + (55 << 20)
        assert process.memory_info().rss < before + (20 << 20)
