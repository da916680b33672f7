"""What a restore brings back beside rows, and what may happen to it."""
import os
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint import reader
from ascpipe.tf import Saver, trained_batches
from ascpipe.tf.checkpoints import table_rows
from ascpipe.tf.running.hold_between_steps import Hold
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.optimizers import adagrad
from mx_rec.util.initialize import trigger_evict
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import EXPANSION, batch, one_table

TIERS = {"device": {}, "host": {"device_vocabulary_size": 8, "host_vocabulary_size": 100}, "disk": on_disk(8, 100),
         "expansion": EXPANSION}
FULL_WINDOW = {"stages": lambda data: data.prefetch(40)}

pytestmark = pytest.mark.timeout_s(120)


def saved(folder, batches, steps, act=lambda program, run: None, asked=(), **kwargs):
    """Prefix of a checkpoint after some steps, and what the other steps looked up."""
    with one_table(batches, asked or [0], **kwargs) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for _ in range(steps):
                program.take()
            act(program, run)
            prefix = saver.save(run, str(folder / "model"), global_step=steps)
            return prefix, [program.take() for _ in batches[steps:]], program.read(), program.table.size()


def resumed(prefix, batches, asked=(), start=True, **kwargs):
    """What each step of a program that begins with a checkpoint looks up."""
    with one_table(batches, asked or [0], **kwargs) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run, variables=start)
            saver.restore(run, prefix)
            return [program.take() for _ in batches], program.read(), program.table.size()


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_counts_of_keys_with_and_without_a_row_come_back_over_variables_or_without_them(tier, tmp_path):
    batches = [batch(5, 5, 6, 7), batch(8, 6), batch(7, 8, 9), batch(9, 6, 8)]
    settings = {"spec": {"access_threshold": 3}, **TIERS[tier], **FULL_WINDOW}
    prefix, looked_up, rows, size = saved(tmp_path, batches, 2, asked=[5, 6, 7, 8, 9], **settings)
    for start in (False,) if tier == "host" else (False, True):
        assert resumed(prefix, batches[2:], asked=[5, 6, 7, 8, 9], start=start, **settings) == (looked_up, rows, size)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_timestamps_come_back_so_that_an_eviction_drops_the_same_keys(tier, tmp_path):
    batches = [batch(1, 2, time=100), batch(2, 3, time=200), batch(3, time=300), batch(1, 2, 3, 4, time=310)]
    settings = {"spec": {"access_threshold": 0, "eviction_threshold": 110}, **TIERS[tier], **FULL_WINDOW}

    prefix, _, rows, _ = saved(tmp_path, batches[:2], 2, asked=[1, 2, 3], **settings)
    assert rows == {1: 0, 2: -1, 3: 0}
    with one_table(batches[2:], [1, 2, 3], **settings) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            saver.restore(run, prefix)
            assert program.take() == [0]
            trigger_evict(run)
            assert program.take() == [1, -1, -1, 1]  # 1 is older than 110, 2 is not


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.parametrize("batches", [
    [batch(), batch(), batch(3, 4), batch(3)],
    [batch(5, 6, time=100), batch(time=900), batch(3, 4, time=901), batch(3, time=902)]], ids=["unused", "evicted"])
@pytest.mark.each_value
def test_a_table_without_a_key_is_restored_as_it_was_saved(batches, tier, tmp_path):
    evicts = "time" in batches[0]
    settings = {"spec": {"access_threshold": 0, "eviction_threshold": 10} if evicts else {}, "asked": [3, 4, 5],
                **TIERS[tier], **FULL_WINDOW}

    def evict(program, run):
        assert program.table.size() == (2 if evicts else 0)
        if evicts:
            trigger_evict(run)

    prefix, looked_up, rows, size = saved(tmp_path, batches, 2, evict, **settings)
    with reader.open_checkpoint(prefix) as checkpoint:
        assert checkpoint.tables["ids"].rows == 0
    assert resumed(prefix, batches[2:], **settings) == (looked_up, rows, size)


def test_a_changed_access_threshold_comes_back(tmp_path):
    batches = [batch(5)] * 8
    settings = {"spec": {"access_threshold": 2}, **FULL_WINDOW}

    def raise_threshold(program, run):
        run.run(import_host_pipeline_ops().set_threshold(6, emb_name="ids"))

    prefix, looked_up, rows, size = saved(tmp_path, batches, 3, raise_threshold, asked=[5], **settings)
    assert looked_up == [[0], [0], [-1], [-2], [-3]]
    assert resumed(prefix, batches[3:], asked=[5], **settings) == (looked_up, rows, size)


def test_a_program_without_admission_stays_without_it_after_a_restore(tmp_path):
    batches = [batch(5, 5, 5, 6), batch(5, 6, 7)]
    prefix, looked_up, _, _ = saved(tmp_path, batches, 1, spec={"access_threshold": 3})
    assert looked_up == [[-2, 0, 0]]
    assert resumed(prefix, batches[1:], asked=[5, 6, 7])[:2] == ([[-2, 1, 1]], {5: -3, 6: 0, 7: 0})


def test_rows_of_keys_that_were_admitted_in_another_order_than_they_came_stay_theirs(tmp_path):
    batches = [batch(1, 2, 3, 4, 1), batch(3, 3, 3), batch(2), batch(4), batch(1)]
    settings = {"asked": [1, 2, 3, 4], "spec": {"access_threshold": 2}}
    prefix, looked_up, rows, size = saved(tmp_path, batches, 4, **settings)
    assert rows == {1: -2, 2: 0, 3: -2, 4: 0}
    assert resumed(prefix, batches[4:], **settings) == (looked_up, rows, size)


@pytest.mark.parametrize("initializer", [
    tf.compat.v1.random_normal_initializer(), tf.compat.v1.orthogonal_initializer()], ids=["normal", "pool"])
def test_keys_that_come_after_a_restore_begin_with_the_rows_of_the_saved_seed(initializer, tmp_path, monkeypatch):
    settings = {"emb_initializer": initializer, **FULL_WINDOW}
    prefix, looked_up, _, _ = saved(tmp_path, [batch(1, 2), batch(3, 4, 5)], 1, **settings)
    seed_graph = tf.compat.v1.set_random_seed
    monkeypatch.setattr(tf.compat.v1, "set_random_seed", lambda seed: seed_graph(77))
    assert resumed(prefix, [batch(3, 4, 5)], **settings)[0] == looked_up


def test_a_program_that_only_evaluates_restores_tables(tmp_path):
    prefix, _, rows, _ = saved(tmp_path, [batch(1, 2, 2), batch(3, 1)], 2, asked=[1, 2, 3, 4])
    for tier in TIERS.values():
        with programs.ascpipe(use_dynamic_expansion="expansion" in tier):
            sizes = {key: value for key, value in tier.items() if key != "expansion"}
            read = only_evaluated(prefix, [1, 2, 3, 4], sizes)
        assert read == rows


def only_evaluated(prefix, asked, sizes):
    """Rows of some keys in a program without a training lookup."""
    table = create_table(tf.int64, 2, "ids", tf.compat.v1.ones_initializer(), **{"device_vocabulary_size": 9, **sizes})
    spec = FeatureSpec("ids", index_key="ids")
    data = tf.data.Dataset.from_tensors({"ids": np.array(asked, np.int64)}).repeat().map(
        get_asc_insert_func([spec], is_training=False)).prefetch(2)
    iterator = tf.compat.v1.data.make_initializable_iterator(data)
    taken = iterator.get_next()
    rows = sparse_lookup(table, spec, batch=taken, is_train=False)
    step = tf.compat.v1.train.get_or_create_global_step()
    saver = Saver(var_list=[step])
    start_asc_pipeline()
    with programs.session() as run:
        run.run([iterator.initializer, step.initializer])
        run.run(rows)
        saver.restore(run, prefix)
        return dict(zip(asked, run.run(rows)[:, 0].tolist()))


def test_a_checkpoint_of_a_resumed_training_says_how_many_batches_all_of_it_has_trained(tmp_path):
    batches, prefix = [batch(1, 2), batch(2, 3), batch(3), batch(4)], None
    for first, steps in ((0, 2), (2, 1), (3, 1)):
        with one_table(batches[first:], [0]) as program:
            saver = Saver()
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
                if prefix is not None:
                    saver.restore(run, prefix)
                for _ in range(steps):
                    program.take()
                prefix = saver.save(run, str(tmp_path / "model"), global_step=first + steps)
        assert trained_batches(prefix) == {"training": first + steps}


def test_a_save_beside_a_thread_that_trains_is_the_state_after_one_of_its_steps(tmp_path):
    source = programs.batches(60, keys=60) * 20
    prefixes, losses = [], []

    def adagrad_program(skip):
        return programs.Program(source, lambda: adagrad.create_hash_optimizer(0.3),
                                stages=lambda data: data.skip(skip).prefetch(40))

    with programs.ascpipe():
        program, saver = adagrad_program(0), Saver(max_to_keep=0)
        with programs.session(inter_op_parallelism_threads=2) as run:
            program.initialise(run)
            losses.append(run.run([program.loss, program.train])[0])
            trainer = threading.Thread(target=lambda: losses.extend(
                run.run([program.loss, program.train])[0] for _ in source[1:]))
            trainer.start()
            for number in range(6):
                prefixes.append(saver.save(run, str(tmp_path / "model"), global_step=number))
            trainer.join()
    positions = [trained_batches(prefix)["training"] for prefix in prefixes]
    assert positions == sorted(positions)
    assert 1 <= positions[0] < positions[-1]
    for prefix, position in zip(prefixes[::3], positions[::3]):
        with programs.ascpipe():
            program, saver = adagrad_program(position), Saver()
            with programs.session() as run:
                program.initialise(run)
                saver.restore(run, prefix)
                again = [run.run([program.loss, program.train])[0] for _ in source[position:position + 40]]
        # the dense sums had two threads
        np.testing.assert_allclose(again, losses[position:position + 40], rtol=1e-5)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.parametrize("owner, name", [(Hold, "write_entries"), (table_rows, "write_rows")], ids=["keys", "rows"])
@pytest.mark.each_value
def test_a_table_worker_killed_in_the_midst_of_a_restore_changes_nothing(owner, name, tier, tmp_path, monkeypatch):
    batches = [batch(*range(i, i + 6)) for i in range(12)]
    settings = {"asked": list(range(18)), **TIERS[tier], **FULL_WINDOW}
    prefix, looked_up, rows, size = saved(tmp_path, batches, 6, **settings)
    kills = []
    write = getattr(owner, name)

    def kill_and_write(*arguments, **named):
        pids = [worker["pid"] for worker in Process.current().running_pipeline().link.status()["workers"]
                if worker["kind"] == "table"]
        os.kill(pids[0], signal.SIGKILL)
        kills.append(pids[0])
        write(*arguments, **named)

    monkeypatch.setattr(owner, name, kill_and_write)
    assert resumed(prefix, batches[6:], **settings) == (looked_up, rows, size)
    assert kills


@pytest.mark.parametrize("reading", ["keys_with_rows", "row_parts"])
def test_a_restore_that_cannot_read_on_leaves_the_table_empty_and_says_so(reading, tmp_path, monkeypatch, caplog):
    batches = [batch(1, 2), batch(2, 3), batch(3, 1)]
    prefix, _, _, _ = saved(tmp_path, batches, 2)
    with one_table(batches, [1, 2, 3]) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            with monkeypatch.context() as broken, pytest.raises(OSError, match="the disk"):
                broken.setattr(reader.Checkpoint, reading, fail)
                saver.restore(run, prefix)
            assert "is now empty" in caplog.text
            assert program.table.size() == 0
            saver.restore(run, prefix)
            assert program.table.size() == 3
            assert program.take() == [-1, 0]


def fail(*arguments, **kwargs):
    raise OSError("the disk is gone")


@pytest.mark.parametrize("sizes, room", [
    ({"device_vocabulary_size": 4}, r"4 rows \(device_vocabulary_size\).*Raise device_vocabulary_size"),
    ({"device_vocabulary_size": 2, "host_vocabulary_size": 4}, r"4 rows \(host_vocabulary_size\).*Raise host_vocab"),
    (on_disk(2, 2), r"4 rows \(host_vocabulary_size and ssd_vocabulary_size\).*Raise ssd_vocabulary_size")],
    ids=["device", "host", "disk"])
def test_a_table_with_less_room_than_the_checkpoint_needs_stays_as_it_is(sizes, room, tmp_path):
    prefix, _, _, _ = saved(tmp_path, [batch(1, 2, 3, 4, 5)], 1)
    with one_table([batch(7), batch(7)], [7], **sizes) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            with pytest.raises(tf.errors.ResourceExhaustedError, match="^E320: table 'ids': 5 keys.*" + room):
                saver.restore(run, prefix)
            assert program.take() == [0]


def test_a_table_with_rows_on_disk_that_is_full_names_the_setting_and_trains_on():
    with one_table([batch(1, 2), batch(3, 4), batch(5), batch(1, 4)], [1], **on_disk(2, 2)) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            program.take()
            with pytest.raises(tf.errors.ResourceExhaustedError,
                               match=r"needs 5 rows for batch 3, but has 4 \(host_vocabulary_size and "
                                     r"ssd_vocabulary_size together\). Raise ssd_vocabulary_size of the table by 1"):
                program.take()
            assert program.take() == [0, 0]


def test_ops_of_an_evaluation_wait_for_a_restore_and_see_it_whole(tmp_path):
    batches = [batch(1, 2), batch(2, 3)]
    prefix, _, rows, _ = saved(tmp_path, batches, 2, asked=[1, 2, 3])
    with one_table(batches, [1, 2, 3]) as program:
        saver = Saver()
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            program.start(run)
            seen = []
            over = threading.Event()
            reading = threading.Thread(target=lambda: [seen.append(program.read()) for _ in iter(over.is_set, True)])
            reading.start()
            for _ in range(5):
                saver.restore(run, prefix)
            over.set()
            reading.join()
    assert all(read in ({1: 0, 2: 0, 3: 0}, rows) for read in seen)
    assert rows in seen
