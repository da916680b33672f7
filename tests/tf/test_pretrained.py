"""``create_table(pretrained=)``: rows of files are the initial rows of a table, unless a checkpoint has the table."""
import logging
import os

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.checkpoint.errors import CheckpointMismatchError, DamagedRowsError, RowsNotImportedError
from ascpipe.errors import TableUseError
from ascpipe.rows.file_table import FileTable
from ascpipe.tf.graph.graph_state import GraphState
from mx_rec.core.asc import start_asc_pipeline
from tests.support import parquets
from tests.tf import programs
from tests.tf.one_table import DIM, batch, one_table
from tests.tf.test_rows_between_steps import TIERS, adagrad

STEPS = 12
BATCHES = [batch(*np.random.RandomState(step).randint(0, 40, 6), time=100 + step) for step in range(STEPS)]
KEYS = np.arange(-3, 20)
ROWS = np.random.RandomState(7).randn(len(KEYS), DIM).astype(np.float32)
SLOTS = np.random.RandomState(8).rand(len(KEYS), DIM).astype(np.float32) + 1
COUNTS = np.arange(len(KEYS))
TIMES = np.arange(len(KEYS)) + 50


def write_npy(folder, keys=KEYS, rows=ROWS, **others):
    folder.mkdir(exist_ok=True)
    for name, values in dict(others, keys=keys, rows=rows).items():
        np.save(str(folder / (name + ".npy")), values)
    return folder


def write_tsv(path, keys=KEYS, rows=ROWS):
    path.write_text("".join("{}\t{}\n".format(key, " ".join(map("{:.9g}".format, row)))
                            for key, row in zip(keys.tolist(), rows.tolist())))
    return path


def write_parquet(path, keys=KEYS, rows=ROWS):
    parquets.write(path, {"key": keys, "row": parquets.pyarrow.array(rows.tolist(), parquets.pyarrow.list_(
        parquets.pyarrow.float32()))})
    return path


def pretrained(path):
    """Let the table of ``one_table`` start with the rows of files."""
    GraphState.of(tf.compat.v1.get_default_graph()).pretrained["ids"] = str(path)


def trained(tier, path, *, begin=lambda table: None, **settings):
    """State of all keys after the initializers, and after the last step."""
    settings = dict(TIERS[tier], optimizer=adagrad, stages=lambda data: data.prefetch(20), **settings)
    asked = np.arange(-5, 45)
    with one_table(BATCHES, [0], **settings) as program:
        if path is not None:
            pretrained(path)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            begin(program.table)
            states = [program.table.read(asked)]
            for _ in BATCHES:
                program.take()
            return [*states, program.table.read(asked)]


def require_equal(found, expected):
    for name in ("keys", "rows", "found", "counts", "timestamps"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    for name in expected.slots:
        np.testing.assert_array_equal(found.slots[name], expected.slots[name], name)


@pytest.mark.parametrize("tier, write", [("device", write_npy), ("host", write_tsv), ("disk", write_parquet),
                                         ("expansion", write_npy)])
def test_rows_of_files_are_those_of_a_table_that_was_assigned(tier, write, tmp_path):
    found = trained(tier, write(tmp_path / "rows.{}".format(write.__name__[6:])))
    expected = trained(tier, None, begin=lambda table: table.assign(KEYS, ROWS))
    assert found[0].found.sum() == len(KEYS)
    for mine, its in zip(found, expected):
        require_equal(mine, its)


@pytest.mark.parametrize("tier", ["device", "disk"])
def test_slots_counts_and_timestamps_of_files_are_loaded(tier, tmp_path):
    others = {"slot_Adagrad_accumulator": SLOTS, "counts": COUNTS, "timestamps": TIMES}
    found, _ = trained(tier, write_npy(tmp_path / "rows", **others), spec={"access_threshold": 5})
    here = slice(2, 2 + len(KEYS))
    np.testing.assert_array_equal(found.rows[here], ROWS)
    (slots,) = found.slots.values()
    np.testing.assert_array_equal(slots[here], SLOTS)
    np.testing.assert_array_equal(found.counts[here], np.maximum(COUNTS, 5))
    np.testing.assert_array_equal(found.timestamps[here], TIMES)


def test_initializers_that_run_again_load_the_rows_again(tmp_path):
    with one_table([batch(1, 2)] * 4, [1, 30]) as program:
        pretrained(write_npy(tmp_path / "rows"))
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            program.table.assign([30], [[9.0] * DIM])
            first = float(ROWS[KEYS.tolist().index(1), 0])
            assert program.read() == {1: pytest.approx(first - 1), 30: 9.0}
            run.run(tf.compat.v1.global_variables_initializer())
            assert program.table.size() == len(KEYS)
            assert program.read()[1] == first and program.table.read([30]).found.tolist() == [False]


@pytest.mark.parametrize("tier", ["device", "expansion"])
def test_files_that_do_not_fit_are_errors_before_the_table_changes(tier, tmp_path):
    folder = tmp_path / "rows"
    with one_table([batch(1, 2)] * 4, [1], **TIERS[tier]) as program:
        pretrained(folder)
        start_asc_pipeline()
        with programs.session() as run:
            bad = ROWS.copy()
            bad[4, 1] = np.nan
            for rows, keys, problem in [(ROWS[:, :1], KEYS, r"shape is \[23, 1\]"),
                                        (bad, KEYS, "row 4 of .*not finite"),
                                        (ROWS, np.append(KEYS[1:], 5), "key 5 occurs twice")]:
                write_npy(folder, keys, rows)
                with pytest.raises(RowsNotImportedError, match="E530: .*{}".format(problem)):
                    program.start(run)
                assert program.table.size() == 0
            write_npy(folder)
            (folder / "rows.npy").write_bytes(b"nothing")
            with pytest.raises(DamagedRowsError, match="E531: .*not an npy file"):
                program.start(run)
            write_npy(folder, np.arange(1000), np.ones((1000, DIM)))
            if tier == "device":
                with pytest.raises(tf.errors.ResourceExhaustedError, match="ids"):
                    program.start(run)
            assert program.table.size() == 0
            write_npy(folder)
            program.start(run)
            program.take()
            assert program.table.size() == len(KEYS)


def test_a_file_that_changes_between_check_and_load_is_an_error_and_the_table_is_empty(tmp_path, monkeypatch):
    folder = write_npy(tmp_path / "rows")
    keys = FileTable.keys_with_rows

    def change(*given):
        os.utime(str(folder / "rows.npy"), (1, 1))
        return keys(*given)

    with one_table([batch(1, 2)] * 4, [1]) as program:
        pretrained(folder)
        start_asc_pipeline()
        with programs.session() as run:
            with monkeypatch.context() as patched:
                patched.setattr(FileTable, "keys_with_rows", change)
                with pytest.raises(DamagedRowsError, match="E531: .*it changed while it was read"):
                    program.start(run)
            assert program.table.size() == 0
            program.start(run)
            assert program.table.size() == len(KEYS)


def managed(folder, path, steps, tables=("ids",)):
    """Train in a managed session with checkpoints. Return the value of a key's row before each step, by table."""
    with tf.Graph().as_default():
        asc.init()
        try:
            made = [asc.create_table(name, DIM, initializer=tf.compat.v1.zeros_initializer(),
                                     device_vocabulary_size=64, pretrained=str(path)) for name in tables]
            data = tf.data.Dataset.from_tensors({"ids": np.array([4], np.int64)}).repeat()
            specs = [asc.FeatureSpec("ids", index_key="ids", table_name=table.table_name) for table in made]
            data = data.map(asc.insert_function(specs)).prefetch(4)
            taken = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
            rows = [asc.sparse_lookup(table, spec, batch=taken) for table, spec in zip(made, specs)]
            step = tf.compat.v1.train.get_or_create_global_step()
            train = asc.optimizers.GradientDescent(1.0).minimize(tf.reduce_sum(tf.concat(rows, 1)), global_step=step)
            asc.start()
            with tf.compat.v1.train.MonitoredTrainingSession(
                    checkpoint_dir=str(folder), save_checkpoint_steps=100, save_summaries_steps=None,
                    save_summaries_secs=None, log_step_count_steps=None) as run:
                values = []
                for _ in range(steps):
                    found, _ = run.run([rows, train])
                    values.append([float(each[0, 0]) for each in found])
            return values
        finally:
            asc.shutdown()
            tf.compat.v1.summary.FileWriterCache.clear()  # TensorFlow keeps its event files open


def test_a_checkpoint_that_is_restored_has_precedence_and_the_log_says_so_once(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    first = float(ROWS[KEYS.tolist().index(4), 0])
    path = write_tsv(tmp_path / "rows.tsv")
    assert managed(tmp_path / "model", path, 2) == [[first], [pytest.approx(first - 1)]]
    assert "table 'ids' starts with 23 rows of {}".format(path) in caplog.text
    path.unlink()
    assert managed(tmp_path / "model", path, 1) == [[pytest.approx(first - 2)]]
    said = [line for line in caplog.messages if "are not loaded" in line]
    assert said == ["table 'ids' has the rows of {}. Its pretrained rows in {} are not loaded".format(
        tmp_path / "model" / "model.ckpt-2", path)]
    write_tsv(path)
    with pytest.raises(CheckpointMismatchError, match="E524"):
        managed(tmp_path / "model", path, 1, tables=("ids", "added"))
    monkeypatch.setenv("ASCPIPE_ALLOW_MISSING", "added")
    assert managed(tmp_path / "model", path, 1, tables=("ids", "added")) == [[pytest.approx(first - 3), first]]


def test_a_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(RowsNotImportedError, match="E530: .*nothing.tsv.*no such file"):
        managed(tmp_path / "model", tmp_path / "nothing.tsv", 1)


@pytest.mark.parametrize("trains_others", [True, False])
def test_a_table_that_is_only_read_starts_with_the_rows(tmp_path, trains_others):
    np.save(str(tmp_path / "keys.npy"), np.arange(10))
    np.save(str(tmp_path / "rows.npy"), np.full((10, 4), 3.0, np.float32))
    with asc.pipeline():
        user, item = (asc.create_table(name, 4, initializer=tf.compat.v1.ones_initializer(), pretrained=path,
                                       device_vocabulary_size=100)
                      for name, path in (("user", str(tmp_path)), ("item", None)))
        ids = tf.compat.v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors([8, 9, 10]).repeat()).get_next()
        rows = asc.sparse_lookup(user, ids, training=False)
        others = asc.sparse_lookup(item, ids, training=trains_others)
        train = asc.optimizers.Adagrad(0.1).minimize(tf.reduce_sum(others)) if trains_others else tf.no_op()
        with programs.session() as run:
            run.run(tf.compat.v1.global_variables_initializer())
            for _ in range(2):
                assert run.run([rows, train])[0][:, 0].tolist() == [3.0, 3.0, 1.0]
            assert user.size() == 10


def test_variables_may_be_initialized_one_by_one_and_slots_not_again_alone(tmp_path):
    path = write_npy(tmp_path / "rows")
    settings = dict(TIERS["host"], optimizer=adagrad, stages=lambda data: data.prefetch(20))
    expected = trained("host", path)[1]
    with one_table(BATCHES, [0], **settings) as program:
        pretrained(path)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for variable in tf.compat.v1.global_variables():
                run.run(variable.initializer)
            slots = [each.initializer for each in tf.compat.v1.global_variables() if "Adagrad" in each.op.name]
            assert slots
            for initializer in slots:
                with pytest.raises(TableUseError, match="E253"):
                    run.run(initializer)
            for _ in BATCHES:
                program.take()
            require_equal(program.table.read(np.arange(-5, 45)), expected)


@pytest.mark.parametrize("tier", ["device", "host"])
@pytest.mark.parametrize("gone", ["evicted", "deleted"])
def test_a_key_that_was_removed_starts_again_with_the_row_of_the_initializer(tier, gone, tmp_path):
    path = write_npy(tmp_path / "rows", np.array([5, 6]), np.full([2, DIM], 7, np.float32))
    batches = [batch(5, time=100), batch(6, time=200), batch(5, time=201)]
    with one_table(batches, [5], spec={"eviction_threshold": 50}, **TIERS[tier]) as program:
        pretrained(path)
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            assert [program.take(), program.take()] == [[7.0], [7.0]]
            if gone == "evicted":
                asc.trigger_evict(run)
            else:
                assert program.table.delete([5]) == 1
            assert not program.table.read([5]).found[0]
            assert program.take() == [1.0]
