"""Cycles of gradient accumulation: which batches belong to one, and what may happen within it."""
import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from tests.tf import twin_programs, ways_to_train
from tests.tf.accumulating import BATCH, IDS, LABELS, ByHand, K, Program
from tests.tf.twin_programs import RATE, require_equal_or_refused

v1 = tf.compat.v1


def test_rows_change_once_in_a_cycle_and_the_step_counts_batches():
    with twin_programs.ascpipe():
        program = Program()
        with program.begin(v1.Session()) as session:
            seen = []
            for _ in range(2 * K):
                session.run(program.train)
                seen.append(program.rows_of(session, range(30)).tobytes())
            assert session.run(v1.train.get_global_step()) == 2 * K
    assert seen[0] == seen[1] == np.full([30, 3], 0.3, np.float32).tobytes()
    assert len({*seen[:2]}) == len({*seen[2:5]}) == 1
    assert len({*seen}) == 3


def test_a_mean_is_the_sum_divided_by_the_batches():
    found = []
    for mean, rate in ((True, 3.0), (False, 1.0)):
        with twin_programs.ascpipe():
            program = Program(make=lambda rate=rate: asc.optimizers.GradientDescent(rate), mean=mean)
            with program.begin(v1.Session()) as session:
                for _ in range(K):
                    session.run(program.train)
                found.append(program.rows_of(session, range(30)))
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("tier", [{}, {"device_vocabulary_size": 24, "host_vocabulary_size": 60}, None],
                         ids=["device", "host", "expansion"])
def test_a_training_that_is_resumed_within_a_cycle_goes_on_as_if_it_had_not_ended(tier, tmp_path):
    grows = {"use_dynamic_expansion": tier is None}
    tier = {"device_vocabulary_size": None} if tier is None else tier
    with twin_programs.ascpipe(**grows):
        program = Program(**tier)
        with program.begin(v1.Session()) as session:
            expected = [session.run([program.loss, program.train])[0] for _ in range(9)]
            rows = program.rows_of(session, range(30))
    with twin_programs.ascpipe(**grows):
        program = Program(**tier)
        with program.begin(v1.Session()) as session:
            found = [session.run([program.loss, program.train])[0] for _ in range(4)]
            program.saver.save(session, str(tmp_path / "model"), 4)
    with twin_programs.ascpipe(**grows):
        program = Program(IDS[4 * BATCH:], LABELS[4 * BATCH:], **tier)
        with v1.Session() as session:
            program.saver.restore(session, str(tmp_path / "model-4"))
            session.run(program.iterator.initializer)
            found += [session.run([program.loss, program.train])[0] for _ in range(5)]
            assert found == expected
            assert program.rows_of(session, range(30)).tobytes() == rows.tobytes()


def test_a_warm_start_within_a_cycle_begins_without_sums(tmp_path):
    """As in TensorFlow, which takes over trainable variables."""
    with twin_programs.ascpipe():
        program = Program(np.repeat([[1], [2], [3], [4]], BATCH, 0), make=lambda: asc.optimizers.GradientDescent(1.0))
        with program.begin(v1.Session()) as session:
            for _ in range(K + 1):
                session.run(program.train)
            rows = program.rows_of(session, range(10))
            program.saver.save(session, str(tmp_path / "model"))
    with twin_programs.ascpipe():
        program = Program(np.repeat([[5], [6], [7]], BATCH, 0), make=lambda: asc.optimizers.GradientDescent(1.0))
        load = asc.warm_start(str(tmp_path / "model"))
        with program.begin(v1.Session()) as session:
            load(session)
            for _ in range(K):
                session.run(program.train)
            found = program.rows_of(session, range(10))
    assert [key for key in range(10) if (found[key] != rows[key]).any()] == [5, 6, 7]
    assert (rows[4] == np.float32(0.3)).all()


def test_sums_of_a_cycle_whose_last_batch_is_not_trained_are_applied_when_their_keys_occur_next():
    ids = np.repeat([[1], [2], [3], [1], [4], [5], [6], [2], [7]], BATCH, 0)
    with twin_programs.ascpipe():
        program = Program(ids, make=lambda: asc.optimizers.GradientDescent(1.0))
        with program.begin(v1.Session()) as session:
            changed = []
            for batch in range(9):
                session.run(program.loss if batch == 2 else program.train)
                rows = program.rows_of(session, range(10))
                changed.append([key for key in range(10) if (rows[key] != np.float32(0.3)).any()])
    assert changed == [[]] * 5 + [[1, 4, 5]] * 3 + [[1, 2, 4, 5, 6, 7]]


def test_a_training_op_that_runs_with_no_last_batch_of_a_cycle_is_an_error():
    """As of a program that only prints its loss in every third step."""
    with twin_programs.ascpipe():
        program = Program()
        with program.begin(v1.Session()) as session:
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="gradients of 7 batches of table 'user' were added.*Run the training op"):
                for batch in range(12):
                    session.run(program.loss if batch % K == K - 1 else program.train)
            assert (program.rows_of(session, range(30)) == np.float32(0.3)).all()


def test_a_training_op_may_run_with_the_last_batches_of_cycles_alone():
    with twin_programs.ascpipe():
        program = Program()
        with program.begin(v1.Session()) as session:
            for batch in range(12):
                session.run(program.train if batch % K == K - 1 else program.loss)
            assert (program.rows_of(session, range(30)) != np.float32(0.3)).any()


def test_a_key_of_a_batch_that_was_not_trained_gets_no_row():
    ids = np.repeat([[1], [2], [3]], BATCH, 0)
    with twin_programs.ascpipe():
        program = Program(ids)
        with program.begin(v1.Session()) as session:
            session.run(program.train)
            session.run(program.iterator.get_next())
            session.run(program.train)
            assert program.table.size() == 2


def test_batches_that_an_iterator_has_read_ahead_and_drops_are_not_counted():
    with twin_programs.ascpipe():
        program = Program(np.repeat(np.arange(10), BATCH)[:, np.newaxis], read_ahead=5)
        with program.begin(v1.Session()) as session:
            changed = []
            for batch in range(2 * K):
                if batch in (2, 3, 4):
                    session.run(program.iterator.initializer)
                session.run(program.train)
                rows = program.rows_of(session, range(10))
                changed.append([key for key in range(10) if (rows[key] != np.float32(0.3)).any()])
            assert program.table.size() == 2
    assert changed == [[], [], [0, 1], [0, 1], [0, 1], [0, 1]]


def restored_or_initialized(tmp_path, change):
    """Train by 4 batches, save, train by one more, let ``change`` restore or initialize, and train by one more."""
    with twin_programs.ascpipe():
        program = Program(read_ahead=2)
        with program.begin(v1.Session()) as session:
            for _ in range(4):
                session.run(program.train)
            program.saver.save(session, str(tmp_path / "model"))
            session.run(program.train)
            change(session, program)
            session.run(program.train)


def test_a_batch_read_ahead_of_a_restore_that_moves_its_cycle_is_an_error(tmp_path):
    with pytest.raises(tf.errors.FailedPreconditionError, match="read ahead before a checkpoint was restored"):
        restored_or_initialized(tmp_path, lambda session, program: program.saver.restore(
            session, str(tmp_path / "model")))


def test_a_batch_read_ahead_of_an_initializer_that_moves_its_cycle_is_an_error(tmp_path):
    with pytest.raises(tf.errors.FailedPreconditionError, match="variables were initialized"):
        restored_or_initialized(tmp_path, lambda session, _: session.run(v1.global_variables_initializer()))


def test_a_training_that_begins_anew_counts_from_its_begin(tmp_path):
    """Also if it is saved and resumed."""
    with twin_programs.ascpipe():
        program = Program()
        for _ in range(2):
            with program.begin(v1.Session()) as session:
                for batch in range(1, 5):
                    session.run(program.train)
                    is_changed = (program.rows_of(session, range(30)) != np.float32(0.3)).any()
                    assert is_changed == (batch >= 3)
                program.saver.save(session, str(tmp_path / "model"))
        assert asc.trained_batches(str(tmp_path / "model")) == {"training": 4}
        with v1.Session() as session:
            program.saver.restore(session, str(tmp_path / "model"))
            session.run(program.iterator.initializer)
            rows = [program.rows_of(session, range(30)).tobytes()]
            for _ in range(2):
                session.run(program.train)
                rows.append(program.rows_of(session, range(30)).tobytes())
            assert rows[0] == rows[1] != rows[2]


def test_variables_and_tables_can_have_cycles_of_their_own():
    def train(model):
        if model.is_ours:
            return asc.Optimizer(dense=asc.optimizers.accumulate(v1.train.AdagradOptimizer(RATE), K),
                                 sparse=lambda: asc.optimizers.Adagrad(RATE)).minimize(model.loss)
        dense, sparse = ByHand(v1.train.AdagradOptimizer(RATE)), v1.train.AdagradOptimizer(RATE)
        pairs = sparse.compute_gradients(model.loss)
        with tf.control_dependencies(ways_to_train.gates_of(pairs)):
            tables = [pair for pair in pairs if pair[1] in model.variables()]
            return tf.group(sparse.apply_gradients(tables), dense.apply_gradients(
                [pair for pair in pairs if pair not in tables]))

    assert not require_equal_or_refused(twin_programs.ours(train), twin_programs.plain(train))


def test_occurrences_are_counted_once_where_keys_are_admitted():
    ids = np.repeat([[1, 2], [1, 3], [1, 3]], [2, 1, 1], 0)  # 1 four times, 2 twice, 3 twice
    ids = np.concatenate([ids, np.full([2 * BATCH, 2], 9)])
    with twin_programs.ascpipe():
        program = Program(ids, spec=asc.FeatureSpec("ids", table_name="user", access_threshold=3))
        with program.begin(v1.Session()) as session:
            for _ in range(K):
                session.run(program.train)
            rows = program.rows_of(session, range(10))
            assert program.table.size() == 2
    assert [key for key in range(10) if (rows[key] != np.float32(0.3)).any()][-1] == 9


def test_an_eviction_within_a_cycle_takes_the_sums_of_a_key_with_it():
    ids = np.repeat([[1], [2], [3], [1], [2], [3]], BATCH, 0)
    with twin_programs.ascpipe():
        spec = asc.FeatureSpec("ids", table_name="user", eviction_threshold=3)
        program = Program(ids, make=lambda: asc.optimizers.GradientDescent(1.0), spec=spec, times=[1, 5, 6, 7, 8, 9])
        with program.begin(v1.Session()) as session:
            for batch in range(K):
                session.run(program.train)
                if batch == 1:
                    asc.trigger_evict(session)
            rows = program.rows_of(session, range(5))
            assert [key for key in range(5) if (rows[key] != np.float32(0.3)).any()] == [2, 3]
            assert program.table.size() == 2


def test_padding_keys_keep_their_rows():
    with twin_programs.ascpipe():
        program = Program(padding_keys=[int(IDS[0, 0])])
        with program.begin(v1.Session()) as session:
            for _ in range(2 * K):
                session.run(program.train)
            assert (program.rows_of(session, [int(IDS[0, 0])]) == np.float32(0.3)).all()


def test_a_cycle_that_does_not_fit_the_device_is_an_error():
    with twin_programs.ascpipe():
        program = Program(device_vocabulary_size=10, host_vocabulary_size=60)
        with program.begin(v1.Session()) as session:
            with pytest.raises(tf.errors.ResourceExhaustedError, match="E320.*Raise device_vocabulary_size"):
                for _ in range(K):
                    session.run(program.train)
