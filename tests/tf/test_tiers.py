"""Tables with host rows: the device is a cache, which changes no bit of what is computed."""
import functools

import numpy as np
import pytest
import tensorflow as tf

from mx_rec.core.asc import start_asc_pipeline
from mx_rec.core.embedding import create_table
from tests.support.covering import some
from tests.tf import programs
from tests.tf.one_table import OneTable, batch

KEYS = 300
SOURCE = programs.batches(40, keys=KEYS)
EVERY_KEY = [{"a": np.tile(np.arange(KEYS)[:, None], 3), "b": np.arange(KEYS, dtype=np.int32),
              "c": -1 - np.arange(KEYS), "label": np.zeros(KEYS, np.float32)}]
LARGEST = max(len(np.unique(np.append(taken["a"], taken["b"]))) for taken in SOURCE)  #: distinct keys of a batch
OPTIMIZERS = {name: functools.partial(programs.optimizer, name, rate) for name, rate in {
    "adagrad": 0.3, "ftrl": 0.3, "gradient_descent": 0.5, "lazy_adam": 0.05}.items()}


@functools.lru_cache(maxsize=None)
def on_the_device(name):
    """Results with every row on the device; the same every time, so that one run is enough."""
    with pytest.MonkeyPatch().context() as monkeypatch:
        return results(OPTIMIZERS[name], monkeypatch, read_between=name in ("adagrad", "lazy_adam"))


def results(optimizer, monkeypatch, user=(KEYS, 0), item=(KEYS, 0), prefetch=40, read_between=False,
            expansion=False):
    """Losses of each step, the rows of every key at the end, and the tables' sizes, for (device, host) rows."""
    sizes = {"user": user, "item": item}

    def sized(name, rows, initializer=None, host_rows=0):
        return create_table(tf.int64, programs.DIM, name,
                            tf.compat.v1.random_normal_initializer(stddev=0.3, seed=11),
                            device_vocabulary_size=sizes[name][0], host_vocabulary_size=sizes[name][1])

    monkeypatch.setattr(programs, "table", sized)
    with programs.ascpipe(use_dynamic_expansion=expansion):
        program = programs.Program(SOURCE, optimizer, eval_source=EVERY_KEY * (len(SOURCE) + 1),
                                   stages=lambda data: data.prefetch(prefetch) if prefetch else data)
        with programs.session() as run:
            program.initialise(run)
            run.run(program.eval_iterator.initializer)
            losses, between = [], []
            for _ in SOURCE:
                losses.append(run.run([program.loss, program.train])[0])
                if read_between:
                    between.append(run.run(program.eval_loss))
            rows = run.run(program.eval_rows)
            return losses, [row.tobytes() for row in rows], (program.user.size(), program.item.size()), between


@pytest.mark.parametrize("name", some(OPTIMIZERS, "gradient_descent", "lazy_adam"))  # without slots and with most
def test_a_device_of_one_batchs_keys_gives_the_losses_and_rows_of_a_large_one_bit_by_bit(name, monkeypatch):
    expected = on_the_device(name)
    cached = results(OPTIMIZERS[name], monkeypatch, user=(LARGEST, KEYS), item=(LARGEST, KEYS))
    assert cached[:3] == expected[:3]
    assert len(set(expected[0])) > len(SOURCE) // 2


@pytest.mark.parametrize("name, read_between", [("gradient_descent", False), ("lazy_adam", True)])
def test_rows_used_at_home_give_the_losses_and_rows_of_a_large_device_bit_by_bit(name, read_between, monkeypatch):
    assert results(OPTIMIZERS[name], monkeypatch, expansion=True, read_between=read_between) == on_the_device(name)


@pytest.mark.parametrize("kwargs", [
    {"item": (LARGEST, KEYS)}, {"user": (60, KEYS), "prefetch": 0}, {"user": (2 * LARGEST, KEYS), "item": (7, 1000)},
    *(pytest.param({"user": (rows, KEYS)}, marks=pytest.mark.long) for rows in (LARGEST, KEYS))])
def test_tables_of_one_program_mix_tiers_and_sizes(kwargs, monkeypatch):
    assert results(OPTIMIZERS["adagrad"], monkeypatch, **kwargs)[:3] == on_the_device("adagrad")[:3]


def test_evaluation_between_steps_reads_every_row_where_it_is(monkeypatch):
    cached = results(OPTIMIZERS["adagrad"], monkeypatch, user=(LARGEST, KEYS), item=(7, KEYS), read_between=True)
    assert cached == on_the_device("adagrad")


def test_size_and_capacity_count_host_rows():
    with programs.ascpipe():
        program = OneTable([batch(*range(5 * i, 5 * i + 5)) for i in range(6)], [0, 29, 30],
                           device_vocabulary_size=5, host_vocabulary_size=1000)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            assert (program.table.size(), program.table.capacity()) == (0, 1000)
            for step in range(6):
                program.take()
                assert program.table.size() == 5 * (step + 1)
            assert program.read() == {0: 0, 29: 0, 30: 0}


def test_running_the_initializer_again_begins_host_rows_anew():
    with programs.ascpipe():
        program = OneTable([batch(1, 2), batch(3, 4), batch(1, 3)] * 2, [1, 4], device_vocabulary_size=2,
                           host_vocabulary_size=10)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            first = [program.take() for _ in range(3)]
            program.start(run)
            assert program.table.size() == 0
            assert [program.take() for _ in range(3)] == first == [[1, 1], [1, 1], [0, 0]]


def test_a_batch_larger_than_the_device_is_an_error_that_says_what_it_needs():
    with programs.ascpipe():
        program = OneTable([batch(1, 2, 3), batch(*range(7)), batch(1)], [1], device_vocabulary_size=5,
                           host_vocabulary_size=100)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            with pytest.raises(tf.errors.ResourceExhaustedError, match="ids.*device_vocabulary_size") as error:
                program.take()
            assert "7" in error.value.message and "5" in error.value.message
            assert (program.table.size(), program.read()) == (3, {1: 0})


def test_a_full_host_is_an_error_that_names_it():
    with programs.ascpipe():
        program = OneTable([batch(1, 2, 3), batch(4, 5, 6), batch(7)], [1], device_vocabulary_size=3,
                           host_vocabulary_size=5)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            with pytest.raises(tf.errors.ResourceExhaustedError, match="ids.*host_vocabulary_size"):
                program.take()
            assert (program.table.size(), program.read()) == (3, {1: 0})


def warnings_of_a_start(caplog, **kwargs):
    with programs.ascpipe():
        OneTable([batch(1)], [1], **kwargs)
        programs.start()
    return [record.getMessage() for record in caplog.records if "ahead of training" in record.getMessage()]


@pytest.mark.parametrize("stages, ahead", [
    (lambda data: data, 0), (lambda data: data.prefetch(5).repeat().prefetch(6), 11)])
def test_a_short_run_ahead_is_a_warning_that_names_the_table(stages, ahead, caplog):
    (warning,) = warnings_of_a_start(caplog, stages=stages, host_vocabulary_size=100)
    assert "'ids'" in warning and "only {} batches".format(ahead) in warning
    assert warning.endswith("End the dataset with .prefetch(32)")


@pytest.mark.parametrize("kwargs", [
    {"stages": lambda data: data.prefetch(32), "host_vocabulary_size": 100}, {"stages": lambda data: data},
    {"stages": lambda data: data.prefetch(tf.data.experimental.AUTOTUNE), "host_vocabulary_size": 100}])
def test_a_long_run_ahead_an_automatic_one_and_a_table_on_the_device_alone_are_no_warning(kwargs, caplog):
    assert warnings_of_a_start(caplog, **kwargs) == []
