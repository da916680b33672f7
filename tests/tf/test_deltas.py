"""Deltas: a full checkpoint and those upon it are what a full save would have been, for every event in between."""
import contextlib
import functools
import json
import os
import random
import types

import numpy as np
import pytest
import tensorflow as tf

from ascpipe import names
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints, is_delta
from ascpipe.cli.checkpoint import summary
from ascpipe.cli.found_checkpoints import look_at
from ascpipe.control import saves
from ascpipe.tf import Saver, trained_batches
from ascpipe.tf.checkpoints import saver_hook
from ascpipe.tf.checkpoints.saving import wait_for_save
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.initialize import trigger_evict
from mx_rec.util.ops import import_host_pipeline_ops
from tests.support import checkpoints
from tests.support.covering import some
from tests.support.on_disk import on_disk
from tests.tf import programs
from tests.tf.one_table import EXPANSION, OneTable, batch
from tests.tf.test_saving_in_managed_sessions import event_files, train_an_estimator

TIERS = {"device": {}, "host": {"device_vocabulary_size": 12, "host_vocabulary_size": 200},
         "disk": on_disk(12, 200), "expansion": EXPANSION}
SPEC = {"access_threshold": 3, "eviction_threshold": 40}
INCREMENTAL = {"is_incremental_checkpoint": True, "save_checkpoint_due_time": 10, "save_delta_checkpoints_secs": 3}

pytestmark = pytest.mark.timeout_s(120)


def adagrad():
    return programs.optimizer("adagrad", 0.5)


class Run:
    """The program with one table, its session and a saver, in a directory of its own."""

    def __init__(self, program, folder, **kwargs):
        self.program, self.folder = program, folder
        self.saver = Saver(**kwargs)
        start_asc_pipeline()
        self.run = programs.session()
        self.steps = 0
        program.start(self.run)

    def train(self, steps=1):
        for _ in range(steps):
            self.program.take()
            self.steps += 1

    def save(self, step=None, *, folder=None, **kwargs):
        path = str((folder or self.folder) / "model")
        return self.saver.save(self.run, path, global_step=self.steps if step is None else step, **kwargs)

    def delta(self, step=None, **kwargs):
        return self.save(step, save_delta=True, **kwargs)

    def same_as_full(self, prefix):
        """Whether a checkpoint is what a full save is now."""
        whole = self.save(folder=self.folder / "full", write_state=False)
        return contents(prefix) == contents(whole)


@contextlib.contextmanager
def started(batches, folder, tier="device", keep=5, init=None, **kwargs):
    settings = {"optimizer": adagrad, **TIERS[tier], **kwargs}
    expansion = settings.pop("expansion", False)
    with programs.ascpipe(use_dynamic_expansion=expansion, **(init or {})):
        run = Run(OneTable(batches, [0], **settings), folder, max_to_keep=keep)
        with run.run:
            yield run


def contents(prefix):
    """All that a checkpoint has of the table, by key, and its spec."""
    with open_checkpoint(prefix) as checkpoint:
        (spec,) = checkpoint.tables.values()
        return (spec, checkpoints.by_key(checkpoint.blocks("ids")), checkpoints.by_key(checkpoint.candidates("ids")),
                checkpoint.position.trained_batches)


def some_batches(count, seed, keys=40):
    dice = np.random.RandomState(seed)
    return [batch(*dice.randint(0, keys, 6), time=100 + 10 * step) for step in range(count)]


def test_each_save_is_noted_with_its_size_and_kind_for_the_dashboard(tmp_path):
    with started(some_batches(6, 1), tmp_path) as run:
        run.train(2)
        prefixes = [run.save()]
        run.train(1)
        prefixes += [run.delta(), run.delta(background=True)]
        wait_for_save()
        noted = saves.read(names.run_dir(Process.current().running_pipeline().link.name))
        listed = [summary(look_at(prefix)) for prefix in prefixes]
    assert [save.prefix for save in noted] == list(dict.fromkeys(prefixes))
    about = {one["checkpoint"]: (one["bytes"], one["kind"]) for one in listed}
    assert [(save.bytes, save.kind) for save in noted] == [about[save.prefix] for save in noted]
    assert {save.kind for save in noted} == {"full", "delta"} and all(save.bytes > 0 for save in noted)


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
@pytest.mark.parametrize("spec", [{"eviction_threshold": 40}, SPEC], ids=["without admission", "with admission"])
@pytest.mark.each_value
def test_base_and_deltas_are_a_full_save_whatever_happened_in_between(tier, spec, tmp_path, seed):
    dice = random.Random(seed)
    batches = some_batches(60, seed)
    with started(batches, tmp_path, tier, spec=spec, stages=lambda data: data.prefetch(60)) as run:
        threshold = import_host_pipeline_ops().set_threshold(dice.randint(2, 5))
        run.train(3)
        assert not is_delta(run.save())
        seen = {"evicted": 0, "deltas": 0}
        for _ in range(14):
            run.train(dice.randint(1, 4))
            event = dice.choice(["nothing", "evict", "evict", "reset", "threshold", "full"])
            if event == "evict":
                before = run.program.table.size()
                trigger_evict(run.run)
                seen["evicted"] += before - run.program.table.size()
            elif event == "reset":
                run.run.run(run.program.table.variable.initializer)
            elif event == "threshold":
                run.run.run(threshold)
            prefix = run.save() if event == "full" else run.delta()
            assert is_delta(prefix) == (event != "full")
            seen["deltas"] += event != "full"
            assert run.same_as_full(prefix), event
        assert seen["deltas"] > 5 and (spec != {"eviction_threshold": 40} or seen["evicted"])


@pytest.mark.parametrize("tier", some(TIERS, "disk", "expansion"))
def test_training_goes_on_from_a_delta_as_if_it_had_never_stopped(tier, tmp_path):
    batches = some_batches(12, 7)
    with started(batches, tmp_path, tier, spec=SPEC) as run:
        for steps in (3, 2, 2):
            run.train(steps)
            trigger_evict(run.run)
            prefix = run.delta()
        rest = [run.program.take() for _ in batches[7:]]
    assert is_delta(prefix) and trained_batches(prefix) == {"training": 7}
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefix
    with started(batches, tmp_path, tier, spec=SPEC, stages=lambda data: data.skip(7).prefetch(4)) as run:
        run.saver.restore(run.run, prefix)
        assert [run.program.take() for _ in batches[7:]] == rest


def test_a_delta_has_only_what_changed(tmp_path):
    batches = [batch(*range(30), time=1), batch(3, 4, 4, time=2), batch(50, time=3)]
    with started(batches, tmp_path) as run:
        run.train()
        run.delta()
        for keys in ([3, 4], [50]):
            run.train()
            run.delta()
            folder = tmp_path / "delta-sparse-model-{}".format(run.steps) / "ids"
            assert sorted(np.fromfile(str(folder / "key" / "slice.data"), np.int64)) == keys
        assert not (folder / "deleted_key").exists()


def is_full_because(run, caplog, reason):
    caplog.clear()
    prefix = run.delta()
    assert not is_delta(prefix) and run.same_as_full(prefix)
    assert [reason in line for line in caplog.messages if "saved instead of a delta" in line] == [True]
    return prefix


def test_the_first_save_is_full_and_so_is_what_no_delta_can_tell(tmp_path, caplog):
    caplog.set_level("INFO", "ascpipe")
    with started(some_batches(12, 3), tmp_path) as run:
        run.train()
        first = is_full_because(run, caplog, "nothing was saved under that name since training started")
        run.train()
        run.delta()
        run.saver.restore(run.run, first)
        is_full_because(run, caplog, "a delta cannot replace delta-sparse-model-2")
        run.train()
        assert is_delta(run.delta())
        other = run.save(folder=tmp_path / "other")
        run.train()
        run.saver.restore(run.run, other)
        run.train()
        is_full_because(run, caplog, "model-3: table ids was loaded after it")
        run.train()
        os.rename(str(tmp_path / "sparse-model-5"), str(tmp_path / "aside"))
        is_full_because(run, caplog, "model-5: it was changed or removed since it was saved")


def test_a_delta_upon_damaged_keys_becomes_full(tmp_path):
    with started(some_batches(12, 3), tmp_path, spec=SPEC) as run:
        run.train(6)
        prefix = run.save()
        with open(str(tmp_path / "sparse-model-6" / "ids" / "key" / "slice.data"), "r+b") as file:
            file.write(b"\1\2\3")
        trigger_evict(run.run)
        run.train()
        assert not is_delta(run.delta())
        assert os.path.exists(prefix + ".index")


def folders(folder):
    return sorted(name for name in os.listdir(str(folder)) if "sparse-" in name)


def test_a_full_save_removes_the_deltas_before_it_and_as_many_full_ones_are_kept_as_asked_for(tmp_path):
    with started(some_batches(40, 3), tmp_path, keep=2) as run:
        for number in range(4):
            run.train()
            run.save()
            for _ in range(3):
                run.train()
                run.delta()
            full = [step for step in (1, 5, 9, 13) if step <= 4 * number + 1][-2:]
            assert folders(tmp_path) == sorted(
                ["sparse-model-{}".format(step) for step in full]
                + ["delta-sparse-model-{}".format(full[-1] + more) for more in (1, 2, 3)])
            kept = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
            assert [int(path.rsplit("-", 1)[1]) for path in kept] == [*full, *(full[-1] + more for more in (1, 2, 3))]
            assert sorted(path + ".index" for path in kept) == sorted(map(str, tmp_path.glob("*.index")))
            assert run.same_as_full(kept[-1])


@pytest.mark.parametrize("keep", [None, 0])
def test_without_a_limit_a_full_save_removes_nothing_that_can_be_restored(keep, tmp_path):
    with started(some_batches(12, 3), tmp_path, keep=keep) as run:
        kept = []
        for _ in range(2):
            for save in (run.save, run.delta, run.delta):
                run.train()
                kept.append((save(), None))
                kept[-1] = kept[-1][0], contents(kept[-1][0])
        assert [is_delta(prefix) for prefix, _ in kept] == [False, True, True] * 2
        assert all(contents(prefix) == before for prefix, before in kept)
        assert tf.train.latest_checkpoint(str(tmp_path)) == kept[-1][0]
        run.train()
        run.save(step=1)  # what the deltas of steps 2 and 3 stand upon is there no more
        assert folders(tmp_path) == ["delta-sparse-model-5", "delta-sparse-model-6", "sparse-model-1", "sparse-model-4"]


def test_savers_of_a_directory_do_not_take_what_deltas_of_another_name_stand_upon(tmp_path):
    with started(some_batches(12, 3), tmp_path) as run:
        run.train()
        run.save()
        run.train()
        delta = run.delta()
        run.saver.save(run.run, str(tmp_path / "other"), global_step=2, write_state=True)
        assert run.same_as_full(delta)


@pytest.mark.parametrize("counting", [True, False])
def test_keys_that_occur_seldom_come_with_a_later_save(counting, tmp_path):
    batches = [batch(1, 2, 3, 4, time=100), batch(1, 1, 2, 9, time=110), batch(2, 2, 3, 9, time=120),
               batch(4, time=200), batch(1, time=210)]
    spec = {"eviction_threshold": 60, "access_threshold": 1, "faae_coefficient": 2}
    with started(batches, tmp_path, spec=spec, init={"recent_key_count_threshold": 2}) as run:
        stop = import_host_pipeline_ops().set_threshold(0)
        run.train()
        base = run.save()
        if not counting:
            run.run.run(stop)
            run.train()
            assert run.same_as_full(run.delta())  # nobody knows how often
            return
        told = []
        for _ in range(2):
            run.train()
            with open_checkpoint(run.delta()) as checkpoint:
                told.append(checkpoints.by_key(checkpoint.counts("ids")))
        with open_checkpoint(base) as checkpoint:
            before = checkpoints.by_key(checkpoint.counts("ids"))
        assert {key for key in told[0] if told[0][key] != before.get(key)} == {1}
        assert {key for key in told[1] if told[1][key] != told[0].get(key)} == {2, 9}
        run.train()
        trigger_evict(run.run)
        run.train()  # 1 comes back, once
        with open_checkpoint(run.delta()) as checkpoint:
            left = checkpoints.by_key(checkpoint.counts("ids"))
        assert left == {4: before[4]}  # used since, and not evicted: it is as it was saved
        with open_checkpoint(run.save(100)) as checkpoint:
            assert sorted(checkpoints.by_key(checkpoint.counts("ids"))) == [1, 4]


def test_keys_that_were_left_out_come_with_the_first_delta_after_counting_stops(tmp_path):
    batches = [batch(1, 2, time=100), batch(1, 1, 9, time=110), batch(1, 1, time=120)]
    spec = {"eviction_threshold": 60, "access_threshold": 1, "faae_coefficient": 2}
    with started(batches, tmp_path, spec=spec, init={"recent_key_count_threshold": 2}) as run:
        stop = import_host_pipeline_ops().set_threshold(0)
        run.train()
        run.save()
        run.train()
        with open_checkpoint(run.delta()) as checkpoint:
            assert 9 not in checkpoints.by_key(checkpoint.counts("ids"))
        run.run.run(stop)
        run.train()
        assert run.same_as_full(run.delta())


def test_a_version_that_was_asked_for_is_restored_first_and_once(tmp_path):
    batches = some_batches(12, 3)
    rows = {}
    with started(batches, tmp_path) as run:
        for step in range(1, 5):
            run.train()
            run.save() if step == 1 else run.delta()
            rows[step] = run.program.read()
    newest = tf.train.latest_checkpoint(str(tmp_path))
    with started(batches, tmp_path, init={"restore_model_version": 3}) as run:
        run.saver.restore(run.run, newest)
        assert run.program.read() == rows[3]
        assert run.run.run(run.program.step) == 3
        run.saver.restore(run.run, newest)
        assert run.program.read() == rows[4]
    with started(batches, tmp_path, init={"restore_model_version": 9}) as run:
        with pytest.raises(ValueError, match="E272: restore_model_version=9 .* has no complete checkpoint model of "
                                             "that step. It has steps 1, 2, 3, 4. Nothing was changed"):
            run.saver.restore(run.run, newest)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a second whenever a hook looks at it."""
    seconds = iter(range(1000, 100000))
    monkeypatch.setattr(saver_hook, "time", types.SimpleNamespace(monotonic=lambda: float(next(seconds))))


def test_a_monitored_session_saves_deltas_between_full_checkpoints(tmp_path, clock):
    with event_files(), programs.ascpipe(**INCREMENTAL):
        program = OneTable(some_batches(40, 3), [0], optimizer=adagrad, spec=SPEC)
        start_asc_pipeline()
        scaffold = tf.compat.v1.train.Scaffold(local_init_op=tf.group(
            program.iterator.initializer, program.eval_iterator.initializer,
            tf.compat.v1.local_variables_initializer()))
        kinds = {}
        with tf.compat.v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), scaffold=scaffold, save_checkpoint_steps=10 ** 6,
                save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None) as run:
            for _ in range(25):
                run.run([program.rows, program.train])
                kinds.update((found.step, found.is_delta) for found in complete_checkpoints(str(tmp_path)))
    assert kinds[0] is False and sum(kinds.values()) > 3 and len(kinds) - sum(kinds.values()) > 2
    last = complete_checkpoints(str(tmp_path))[-1]
    assert last.step == 25 and last.prefix == tf.train.latest_checkpoint(str(tmp_path))
    with open(str(tmp_path / "model_index.json")) as file:
        index = json.load(file)
    assert [(entry["global_step"], entry["type"] == "delta") for entry in index] == [
        (found.step, found.is_delta) for found in complete_checkpoints(str(tmp_path))]
    assert {(entry["type"], entry["export_tag"]) for entry in index} <= {("delta", "Seconds"), ("base", "DueTime")}
    assert all(entry["timestamp"] > 0 and entry["cost_ms"] >= 0 for entry in index)
    with open(str(tmp_path / "delta_export_time_ms.json")) as file:
        assert set(json.load(file)) == {"delta_{}".format(found.step) for found in complete_checkpoints(str(tmp_path))
                                        if found.is_delta}


def test_an_estimator_saves_deltas_and_goes_on_from_the_last_one_bit_by_bit(tmp_path, clock, monkeypatch):
    whole = train_an_estimator(tmp_path / "whole", 20, 0)
    monkeypatch.setattr(programs, "ascpipe", functools.partial(programs.ascpipe, **INCREMENTAL))
    first = train_an_estimator(tmp_path / "parts", 8, 0)
    newest = tf.train.latest_checkpoint(str(tmp_path / "parts"))
    assert is_delta(newest) and trained_batches(newest) == {"training": 8}
    assert first + train_an_estimator(tmp_path / "parts", 12, 8) == whole


def test_a_hook_of_a_program_without_increments_is_tensorflows(tmp_path):
    with event_files(), programs.ascpipe():
        tf.compat.v1.Variable(1.0)
        tf.compat.v1.train.get_or_create_global_step()
        hook = saver_hook.CheckpointSaverHook(str(tmp_path), save_steps=2, saver=Saver())
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]):
            pass
    assert Process.is_initialised() is False
    assert [name for name in os.listdir(str(tmp_path)) if name.endswith(".index")] == ["model.ckpt-0.index"]
