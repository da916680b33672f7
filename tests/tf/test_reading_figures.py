"""Counters of ``asc.data.read`` in the status of the daemon are exact."""
import os
import time

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe import names
from ascpipe.cli import timeline
from ascpipe.shm import trainer_spans
from ascpipe.tf.running.process import Process
from tests.support import tfrecords
from tests.support.waiting import wait_until
from tests.tf.test_read_positions import program, read, records

v1 = tf.compat.v1
BAD = b"no example"
COUNTERS = ("records", "bytes", "batches", "skipped", "readers")


@pytest.fixture
def contents():
    return [records(30), records(20) + [BAD] + records(26)]


@pytest.fixture
def files(tmp_path, contents):
    return [tfrecords.write(tmp_path / "{}.tfrecord".format(number), content) for number, content in
            enumerate(contents)]


def counted():
    return Process.current().running_pipeline().link.status()["reading"]


def is_over():
    return counted()["readers"] == 0


def test_records_bytes_and_skipped_records_of_a_program_are_exact(files, contents):
    with program(lambda: read(files, on_bad_record="skip", readers=2)) as run:
        assert counted() is None
        assert len(run.begin().steps()) == 30  # 77 records in batches of 8, 3 epochs
        wait_until(is_over)
        told = counted()
    size = sum(len(record) for content in contents for record in content)
    assert {name: told[name] for name in COUNTERS} == {
        "records": 3 * 76, "bytes": 3 * size, "batches": 30, "skipped": 3, "readers": 0}
    assert told["read_s"] > 0 and told["parse_s"] > 0 and told["waited_s"] > 0


def test_batches_that_were_read_before_the_session_count_and_a_new_session_starts_at_zero(files, contents):
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(asc.data.read(files[0], read_specs(), 10)).get_next()
        for _ in range(3):
            session.run(following)
    for expected in (30 + 8, 8):
        with program(lambda: read(files[0], read_ahead=1, epochs=1)) as run:
            run.begin().steps(1)
            wait_until(lambda expected=expected: counted()["records"] >= expected)
            assert expected <= counted()["records"] <= expected + 22


def test_the_timeline_has_the_batches_that_were_read_while_the_daemon_recorded(files, monkeypatch):
    monkeypatch.setenv("ASCPIPE_TIMELINE_SPANS", "500")
    before_ns = time.time_ns()
    with program(lambda: read(files[0], readers=2, epochs=2, read_ahead=1)) as run:
        assert len(run.begin().steps()) == 8  # 30 records in batches of 8, 2 epochs
        wait_until(is_over)
        status = Process.current().running_pipeline().link.status()
        recorded = trainer_spans.read_reading(names.run_dir(status["name"]).reading_spans)
        found = timeline.within(recorded, status["trace"])
        (row, *others) = timeline.events_of_readers(found)
    spans = sorted(found.spans, key=lambda span: span.batch)
    assert found.pid == os.getpid() and len({span.thread for span in spans}) == 1 + len(others) <= 2
    assert [(span.batch, span.epoch, span.records) for span in spans] == [
        (number + 1, number // 4, 6 if number % 4 == 3 else 8) for number in range(8)]
    assert all(before_ns <= span.start_ns + 1000 * (span.read_us + span.parse_us) <= time.time_ns() for span in spans)
    assert any(event["name"].startswith("parse ") for event in row)


def read_specs():
    return {"user": tf.io.FixedLenFeature([2], tf.int64)}


def test_readers_wait_while_the_read_ahead_is_full(files):
    with program(lambda: read(files, on_bad_record="skip", epochs=None, readers=2)) as run:
        run.begin().steps(5)
        assert counted()["readers"] == 2
        wait_until(lambda: run.steps(20) and counted()["full_s"] > 0)
