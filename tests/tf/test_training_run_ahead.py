"""The pipeline runs ahead of training, and nobody can tell: evaluation, peeks, skips, sessions, threads."""
import functools
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import sparse_lookup
from mx_rec.optimizers import adagrad, gradient_descent
from tests.support.waiting import wait_until
from tests.tf import programs

SOURCE = programs.batches(60, keys=30)
UNKNOWN = programs.batches(12, seed=9, keys=40)  # evaluation meets keys that are never trained


def optimizer():
    return adagrad.create_hash_optimizer(0.3)


def statistics():
    """What the daemon knows, by table name; after ``size`` has waited for the last trained step."""
    status = Process.current().running_pipeline().link.status()
    assert not any(wait["late"] for wait in status["waits"]), "a wake-up was lost"
    return {table["name"]: table for table in status["tables"]}


def test_a_map_of_one_call_at_a_time_trains_as_a_sequential_one(monkeypatch):
    sequential = programs.our_losses(SOURCE, optimizer)
    plain, stages = tf.compat.v1.data.Dataset.map, []

    def one_call_at_a_time(self, function):
        stages.append(function)
        return plain(self, function, num_parallel_calls=1)

    monkeypatch.setattr(tf.compat.v1.data.Dataset, "map", one_call_at_a_time)
    assert programs.our_losses(SOURCE, optimizer) == sequential
    assert stages


def keys_of(batches, *names):
    return {int(key) for batch in batches for name in names for key in batch[name].reshape(-1)}


def require_counts(program, trained):
    """Rows, ids and batches are those of the trained batches, and of no other."""
    assert program.user.size() == len(keys_of(trained, "a", "b"))
    assert program.item.size() == len(keys_of(trained, "c"))
    tables = statistics()
    for name, features in (("user", "ab"), ("item", "c")):
        assert tables[name]["batches"] == len(trained)
        assert tables[name]["ids"] == sum(batch[key].size for batch in trained for key in features)


@functools.lru_cache(maxsize=None)
def undisturbed_source():
    return programs.our_losses(SOURCE, optimizer)


@pytest.mark.parametrize("frames", [2, 64])
def test_evaluation_every_two_steps_half_read_changes_nothing_and_meets_default_rows(frames, monkeypatch):
    expected = undisturbed_source()
    monkeypatch.setenv("ASCPIPE_RING_FRAMES", str(frames))
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, eval_source=UNKNOWN, stages=lambda data: data.prefetch(100))
        with programs.session() as run:
            program.initialise(run)
            losses, evaluations = [], []
            for step in range(len(SOURCE)):
                losses.append(run.run([program.loss, program.train])[0])
                if step % 2:
                    run.run(program.eval_iterator.initializer)
                    evaluations.append([run.run([program.eval_loss, *program.eval_rows]) for _ in range(3)])
            require_counts(program, SOURCE)
        assert losses == expected
        known = keys_of(SOURCE, "a", "b")
        for _, first, _, _ in evaluations[-1:][0][:1]:
            trained = np.isin(UNKNOWN[0]["a"], list(known))
            assert not trained.all()
            assert not first[~trained].any()
            assert first[trained].any(axis=-1).all()


def test_a_default_row_stands_for_keys_that_were_never_trained():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, eval_source=UNKNOWN, start=False)
        rows = sparse_lookup(program.user, program.eval_features[0], is_train=False, batch=program.eval_batch,
                             serving_default_value=[1.0, 2.0, 3.0, 4.0])
        start_asc_pipeline()
        with programs.session() as run:
            program.initialise(run)
            run.run(program.eval_iterator.initializer)
            np.testing.assert_array_equal(run.run(rows), np.broadcast_to([1, 2, 3, 4], [6, 3, 4]))


def test_peeks_skips_and_filters_leave_no_trace():
    kept = [batch for batch in SOURCE[20:] if batch["label"][0] < 0.8]
    expected = programs.our_losses(kept[10:], optimizer)
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, stages=lambda data: data.skip(20).filter(
            lambda batch: batch["label"][0] < 0.8).prefetch(100))
        with programs.session() as run:
            program.initialise(run)
            for _ in range(10):
                run.run(program.batch["label"])
            losses = [run.run([program.loss, program.train])[0] for _ in kept[10:]]
            with pytest.raises(tf.errors.OutOfRangeError):
                run.run(program.train)
            require_counts(program, kept[10:])
        assert losses == expected


def test_the_iterator_may_start_anew_with_the_ring_full():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, stages=lambda data: data.repeat().prefetch(1000))
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            for _ in range(3):
                wait_until(lambda: _ring()["depth"] == 64 and _ring()["parked"] > 0)
                started = time.monotonic()
                run.run(program.iterator.initializer)
                assert time.monotonic() - started < 5
                run.run(program.train)
            require_counts(program, [SOURCE[0]] * 4)


def _ring():
    return Process.current().running_pipeline().link.status()["rings"][0]


def test_a_session_closes_at_once_with_the_ring_full_and_another_goes_on_with_the_rows():
    expected = programs.our_losses(SOURCE[:20] + SOURCE[:20], optimizer)
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer, eval_source=UNKNOWN, stages=lambda data: data.prefetch(100))
        weights = tf.compat.v1.trainable_variables("dense")
        with programs.session() as run:
            program.initialise(run)
            losses = [run.run([program.loss, program.train])[0] for _ in range(20)]
            dense = run.run(weights)
            started = time.monotonic()
        assert time.monotonic() - started < 5
        rows = program.user.size()
        with programs.session() as run:
            for variable, value in zip(weights, dense):
                variable.load(value, run)
            run.run(program.eval_iterator.initializer)
            run.run(program.eval_loss)
            assert program.user.size() == rows
        with programs.session() as run:
            for variable, value in zip(weights, dense):
                variable.load(value, run)
            run.run(program.iterator.initializer)
            losses += [run.run([program.loss, program.train])[0] for _ in range(20)]
        assert losses == expected


def test_running_the_initializer_again_begins_a_table_anew():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            runs = []
            for _ in range(2):
                program.initialise(run)
                runs.append([run.run([program.loss, program.train])[0] for _ in range(10)])
            assert program.user.size() == len(keys_of(SOURCE[:10], "a", "b"))
        assert runs[0] == runs[1]


def test_two_threads_that_train_share_the_batches_between_them():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        with tf.compat.v1.Session() as run:
            program.initialise(run)
            done, failures = [], []

            def train():
                try:
                    for _ in range(len(SOURCE) // 2):
                        run.run(program.train)
                        done.append(1)
                except tf.errors.OpError as error:
                    failures.append(error)

            threads = [threading.Thread(target=train) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            assert len(done) == len(SOURCE)
            require_counts(program, SOURCE)


def test_a_table_fetched_now_and_then_counts_every_trained_batch():
    with programs.ascpipe():
        program = programs.Program(SOURCE, optimizer)
        with programs.session() as run:
            program.initialise(run)
            for step in range(len(SOURCE)):
                run.run(program.rows[2] if step % 10 else program.train)
            tables_size = program.item.size()
            assert tables_size == len(keys_of(SOURCE, "c"))
            assert program.user.size() == len(keys_of(SOURCE[::10], "a", "b"))
            assert statistics()["user"]["batches"] == len(SOURCE)


def test_features_that_are_never_looked_up_change_nothing_and_are_counted_where_they_have_a_table():
    expected = undisturbed_source()
    with programs.ascpipe():
        extra = programs.table("extra")
        features = [*programs.specs(), FeatureSpec("x", table_name="extra", index_key="c"),
                    FeatureSpec("y", table_name="is_not_created", index_key="b")]
        user, item = programs.table("user"), programs.table("item")
        iterator, batch = programs.insert(SOURCE, features)
        rows = [sparse_lookup(owner, spec, batch=batch) for owner, spec in zip((user, user, item), features)]
        loss = programs.model(rows, batch["label"])
        train = programs.apply(loss, [user.variable, item.variable], optimizer())
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            assert [run.run([loss, train])[0] for _ in SOURCE] == expected
        assert extra.size() == 0
        wait_until(lambda: statistics()["extra"]["batches"] >= len(SOURCE) - 1)


def test_twenty_six_tables_train_on_one_thread():
    source = [{"ids": np.arange(26 * 4).reshape(4, 26) % 13 + step} for step in range(10)]
    with programs.ascpipe():
        tables = [programs.table("t{}".format(n)) for n in range(26)]
        features = [FeatureSpec("f{}".format(n), table_name="t{}".format(n), index_key="f{}".format(n))
                    for n in range(26)]
        split = programs.dataset(source).map(lambda b: {"f{}".format(n): b["ids"][:, n] for n in range(26)})
        iterator = tf.compat.v1.data.make_initializable_iterator(split.map(get_asc_insert_func(features)).prefetch(8))
        batch = iterator.get_next()
        loss = tf.add_n([tf.reduce_sum(tf.square(sparse_lookup(owner, spec, batch=batch)))
                         for owner, spec in zip(tables, features)])
        variables = [owner.variable for owner in tables]
        train = gradient_descent.create_hash_optimizer(0.1).apply_gradients(
            zip(tf.gradients(loss, variables), variables))
        start_asc_pipeline()
        with programs.session() as run:
            run.run([iterator.initializer, tf.compat.v1.global_variables_initializer()])
            losses = [run.run([loss, train])[0] for _ in source]
        assert np.isfinite(losses).all()
        for n, owner in enumerate(tables):
            assert owner.size() == len({int(key) for batch in source for key in batch["ids"][:, n]})
