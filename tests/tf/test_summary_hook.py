"""Scalars of the pipeline in event files: their values, their steps, and that no step waits for them."""
import glob
import math
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ascpipe import errors
from ascpipe.control.trainer_link import TrainerLink
from ascpipe.tf import SummaryHook
from ascpipe.tf.program import summary_hook
from ascpipe.tf.running.hold_between_steps import hold
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.step_figures import Answer, scalars
from mx_rec.core.asc import start_asc_pipeline
from tests.support.statuses import status
from tests.support.waiting import wait_until
from tests.tf import one_table, programs
from tests.tf.estimators import event_files
from tests.tf.test_second_graphs_of_estimators import STEPS, Job

KEYS, BATCH, DEVICE = 200, 30, 60
TIERS = {"device_vocabulary_size": DEVICE, "host_vocabulary_size": KEYS}
TAGS = {"ascpipe/" + tag for tag in (
    "steps_per_s", "ids_per_s", "step_waits", "ring_depth/stream_0", "hit_rate/ids/device", "hit_rate/ids/host",
    "hit_rate/ids/new", "rows_moved_per_step/ids/host_to_device")}


def source(count=12):
    random = np.random.RandomState(5)
    return [one_table.batch(*random.randint(0, KEYS, BATCH)) for _ in range(count)]


def scalars_in(folder):
    """By tag, value by step, of the event files of a folder."""
    found = {}
    for path in sorted(glob.glob(str(folder / "events.*"))):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def ours(folder):
    return {tag: values for tag, values in scalars_in(folder).items() if tag.startswith("ascpipe/")}


def train(folder, runs, between=lambda step: None, **options):
    """Train in a monitored session with a hook; seconds of each run."""
    seconds = []
    with event_files(), one_table.one_table(source(), [0], stages=lambda data: data.repeat().prefetch(4),
                                            **TIERS) as program:
        start_asc_pipeline()
        hook = SummaryHook(output_dir=str(folder), **options)
        config = tf.compat.v1.ConfigProto(use_per_session_threads=True, **programs.ONE_THREAD)
        with tf.compat.v1.train.MonitoredSession(
                tf.compat.v1.train.ChiefSessionCreator(config=config), hooks=[hook]) as session:
            session.run_step_fn(lambda step_context: step_context.session.run(
                [program.iterator.initializer, program.eval_iterator.initializer]))
            for step in range(runs):
                began = time.monotonic()
                session.run(program.train)
                seconds.append(time.monotonic() - began)
                between(step)
    return seconds


@pytest.fixture
def first_answer(monkeypatch):
    """A session's first step ends when the daemon has answered once, however fast the others are."""
    hand = summary_hook._Writing.hand

    def hand_and_wait(self, step, **options):
        hand(self, step, **options)
        wait_until(lambda: self._answer is not None)

    monkeypatch.setattr(summary_hook._Writing, "hand", hand_and_wait)


def require_no_thread():
    wait_until(lambda: not any(thread.name == "ascpipe-summaries" for thread in threading.enumerate()))


def test_an_event_file_holds_the_scalars_of_the_pipeline(tmp_path):
    train(tmp_path, 60, save_steps=20, between=lambda step: written(tmp_path, step))
    found = ours(tmp_path)
    assert set(found) == TAGS
    for tag, values in found.items():
        assert all(math.isfinite(value) for value in values.values()), tag
        assert len(values) == 3 and max(values) == 60
    rates = [sum(found["ascpipe/hit_rate/ids/" + tier][60] for tier in ("device", "host", "new"))]
    assert rates == [pytest.approx(1.0, abs=1e-6)]
    assert 0 < found["ascpipe/hit_rate/ids/device"][60] < 1
    assert found["ascpipe/hit_rate/ids/new"][60] == 0, "all keys have had a row by then"
    assert 0 < found["ascpipe/rows_moved_per_step/ids/host_to_device"][60] < BATCH
    assert all(0 <= share <= 1 for share in found["ascpipe/step_waits"].values())
    assert all(rate > 0 for tag in ("steps", "ids") for rate in found["ascpipe/{}_per_s".format(tag)].values())
    require_no_thread()


def written(folder, step):
    """Wait until what was due is written: else later scalars, which are due in milliseconds, would be left out."""
    if step % 20 == 0 and step > 0:
        wait_until(lambda: count_written(folder) >= step // 20)


def count_written(folder):
    """Of a file that is being written to, whose last record may be there in part."""
    try:
        return len(scalars_in(folder).get("ascpipe/steps_per_s", ()))
    except tf.errors.DataLossError:
        return 0


def test_scalars_come_each_some_seconds_and_at_the_end(tmp_path, first_answer):
    train(tmp_path, 30, save_secs=1000)
    found = ours(tmp_path)
    assert set(found) == TAGS
    assert all(list(values) == [30] for values in found.values())


def test_a_daemon_that_takes_its_time_delays_no_step(tmp_path, monkeypatch):
    asked, go_on = threading.Event(), threading.Event()
    plain = TrainerLink.status

    def status_of(link):
        asked.set()
        assert go_on.wait(20)
        return plain(link)

    monkeypatch.setattr(TrainerLink, "status", status_of)
    answered = []

    def between(step):
        if step == 0:
            assert asked.wait(20)
        if step == 50:
            answered.append(go_on.is_set())
            go_on.set()

    train(tmp_path, 51, between, save_steps=1)
    assert answered == [False]  # 50 steps while the first question had no answer
    assert max(ours(tmp_path)["ascpipe/steps_per_s"]) == 51


def test_a_session_that_ends_before_the_daemon_has_answered_has_the_rate_of_its_steps(tmp_path, monkeypatch):
    plain = summary_hook._Writing.run

    def run(thread):
        wait_until(lambda: thread._last is not None)  # no job was looked at by then
        plain(thread)

    monkeypatch.setattr(summary_hook._Writing, "run", run)
    train(tmp_path, 5, save_secs=1000)
    found = ours(tmp_path)
    assert set(found) == {"ascpipe/steps_per_s"} and list(found["ascpipe/steps_per_s"]) == [5]


def test_a_daemon_that_does_not_answer_is_logged_once_and_training_goes_on(tmp_path, monkeypatch, caplog):
    def status_of(link):
        raise errors.NoAnswerError("unit", 7, "status", 10.0)

    monkeypatch.setattr(TrainerLink, "status", status_of)
    train(tmp_path, 41, between=lambda step: written(tmp_path, step), save_steps=20)
    assert set(ours(tmp_path)) == {"ascpipe/steps_per_s", "ascpipe/step_waits"}
    assert [record.getMessage() for record in caplog.records if record.name == summary_hook.__name__] == [
        "No scalars of the pipeline are written: " + str(errors.NoAnswerError("unit", 7, "status", 10.0))]


def test_a_session_that_fails_leaves_no_thread(tmp_path):
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, 5, lambda step: step == 3 and 1 / 0)
    require_no_thread()


def test_a_step_that_waits_is_seen_to_wait_and_one_that_ends_is_not():
    with one_table.one_table(source(2), [0]) as program:
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            program.start(run)
            program.take()
            pipeline = Process.current().running_pipeline()
            wait_until(lambda: not pipeline.waits())
            with hold(alone=False):
                thread = threading.Thread(target=program.take)
                thread.start()
                wait_until(pipeline.waits)
            thread.join()
            wait_until(lambda: not pipeline.waits())


def estimator_job(folder, steps=STEPS):
    with event_files(), programs.ascpipe():
        Job(folder).train(steps)


def test_an_estimator_writes_them_where_the_setting_asks_for_it(tmp_path, monkeypatch, first_answer):
    monkeypatch.setenv("ASCPIPE_SUMMARY_S", "1000")
    estimator_job(tmp_path)
    found = ours(tmp_path)
    assert {"ascpipe/steps_per_s", "ascpipe/hit_rate/user/device", "ascpipe/hit_rate/item/device"} <= set(found)
    assert list(found["ascpipe/steps_per_s"]) == [STEPS]
    require_no_thread()


def test_an_estimator_writes_none_unless_asked(tmp_path):
    estimator_job(tmp_path, 3)
    assert ours(tmp_path) == {}


@pytest.mark.parametrize("options, words", [
    ({}, "neither output_dir nor summary_writer"),
    ({"output_dir": "x", "summary_writer": 1}, "parameter summary_writer: 1 is int, expected a FileWriter"),
    ({"output_dir": "x", "save_steps": 1, "save_secs": 1}, "both save_steps=1 and save_secs=1. Pass one of them"),
    ({"output_dir": "x", "save_steps": 0}, "save_steps"), ({"output_dir": "x", "save_secs": 0}, "save_secs"),
    ({"output_dir": 3}, "output_dir")])
def test_wrong_arguments_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        SummaryHook(**options)


def test_each_rank_writes_to_a_folder_of_its_own(tmp_path):
    for rank, folder in ((0, tmp_path / "a"), (1, tmp_path / "a" / "rank-1")):
        with event_files(), programs.ascpipe(rank_id=rank, rank_size=2):
            tf.compat.v1.train.get_or_create_global_step()
            SummaryHook(output_dir=str(tmp_path / "a")).begin()
            assert folder.is_dir() and (tmp_path / "a" / "rank-1").is_dir() == (rank == 1)


def test_a_graph_without_a_global_step_is_an_error(tmp_path):
    with programs.ascpipe(), pytest.raises(RuntimeError, match="needs a global step, but the graph has none"):
        SummaryHook(output_dir=str(tmp_path)).begin()
    with pytest.raises(OSError, match="E262: .*Call .*init"):
        SummaryHook(output_dir=str(tmp_path)).begin()


# ---- the numbers -----------------------------------------------------------------------------------------

def answer(at, rank=0, **grown):
    """A status whose first table has these numbers more."""
    body = status()
    table = body["tables"][0]
    table.update(disk_slots=50, home_rows=50)
    for key, more in grown.items():
        table[key] += more
    body["tables"] = [table]
    return Answer(body, at)


GROWN = {"batches": 10, "ids": 600, "hits": 60, "misses": 40, "loads": 30, "fetches": 20, "spills": 15}


def test_rates_and_shares_are_of_the_interval():
    found = scalars(answer(100.0), answer(102.0, **GROWN))
    ring = answer(0.0).status["rings"][0]
    assert found == {
        "ids_per_s": 300.0, "hit_rate/user/device": 0.6, "hit_rate/user/host": 0.1, "hit_rate/user/disk": 0.2,
        "hit_rate/user/new": 0.1, "rows_moved_per_step/user/host_to_device": 3.0,
        "rows_moved_per_step/user/disk_to_host": 2.0, "rows_moved_per_step/user/host_to_disk": 1.5,
        "ring_depth/stream_{}".format(ring["stream"]): ring["depth"]}


def test_rows_that_were_read_ahead_of_their_batches_make_no_share_less_than_none():
    found = scalars(answer(100.0), answer(102.0, **{**GROWN, "fetches": 35}))
    assert (found["hit_rate/user/host"], found["hit_rate/user/disk"]) == (0.0, 0.3)


def test_a_table_that_was_not_trained_has_no_shares_and_tiers_that_are_not_there_neither():
    assert not [tag for tag in scalars(answer(100.0), answer(102.0)) if "user" in tag]
    body = answer(102.0, **GROWN)
    body.status["tables"][0].update(disk_slots=0, home_rows=0)
    assert {tag for tag in scalars(answer(100.0), body) if "user" in tag} == {
        "hit_rate/user/device", "hit_rate/user/new"}


def test_a_table_that_came_in_the_interval_counts_from_nothing():
    before = answer(100.0)
    before.status["tables"] = []
    after = answer(102.0)
    assert scalars(before, after)["ids_per_s"] == after.status["tables"][0]["ids"] / 2


def test_two_sessions_make_no_interval():
    after = answer(102.0, **GROWN)
    after.status["trainer"] = {**after.status["trainer"], "run": 45}
    assert scalars(answer(100.0), after) == {}
    after.status["trainer"] = None
    assert scalars(answer(100.0), after) == scalars(after, answer(103.0)) == {}

