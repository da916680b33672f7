"""A full checkpoint and the deltas upon it read as one checkpoint, or not at all."""
import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.checkpoint import disk, model_index
from ascpipe.checkpoint.contents import Block, KeyBlock
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NotRemovedError, NotSavedError
from ascpipe.checkpoint.reader import open_checkpoint, open_keys, trained_batches
from ascpipe.checkpoint.retention import complete_checkpoints, deltas_of, is_delta, remove_checkpoint
from tests.support import checkpoints, disk_faults
from tests.support.checkpoints import Content, content
from tests.support.covering import example_count

SPEC = content("user").spec
ROW, CANDIDATE = "row", "candidate"


def table(said, deleted=()):
    """A table that says of some keys (kind, value), and that others are deleted."""
    rows = sorted(key for key, (kind, _) in said.items() if kind == ROW)
    others = sorted(key for key, (kind, _) in said.items() if kind == CANDIDATE)
    numbers = [np.array([said[key][1] for key in keys], np.int64) for keys in (rows, others)]
    block = Block(np.array(rows, np.int64),
                  np.repeat(numbers[0].astype(np.float32)[:, None], SPEC.row_floats, axis=1), numbers[0], numbers[0])
    candidates = KeyBlock(np.array(others, np.int64), numbers[1], numbers[1])
    spec = SPEC._replace(rows=len(rows), candidates=len(others), deleted=len(deleted))
    return Content(spec, block, candidates, deleted=np.array(sorted(deleted), np.int64))


KEYS = st.sampled_from([checkpoints.INT64.min, checkpoints.INT64.max, *range(-8, 9)])
SAID = st.dictionaries(KEYS, st.tuples(st.sampled_from([ROW, CANDIDATE]), st.integers(0, 1 << 20)), max_size=12)


@given(SAID, st.lists(st.tuples(SAID, st.sets(KEYS, max_size=6)), max_size=5), st.integers(1, 4), st.integers(1, 9))
@settings(max_examples=example_count(10, 100))
def test_a_chain_is_what_a_full_save_would_be_at_each_of_its_steps(tmp_path_factory, first, changes, ranks, block_rows):
    folder = tmp_path_factory.mktemp("chain")
    prefix, state = checkpoints.save(folder, 0, [table(first)]), dict(first)
    states = [(prefix, dict(state))]
    for step, (said, deleted) in enumerate(changes, 1):
        deleted = deleted - set(said)
        prefix = checkpoints.save(folder, step, [table(said, deleted)], parent=prefix)
        state.update(said)
        state = {key: value for key, value in state.items() if key not in deleted}
        states.append((prefix, dict(state)))
    for step, (prefix, state) in enumerate(states):
        whole = table(state)
        assert (is_delta(prefix), trained_batches(prefix)) == (step > 0, {"train 'é'": step + 1})
        with open_checkpoint(prefix) as checkpoint:
            checkpoints.assert_holds(checkpoint, [whole])
            assert (checkpoint.step, checkpoint.position) == (step, checkpoints.position([whole], step + 1))
            blocks = [block for rank in range(ranks) for block in checkpoint.blocks("user", rank, ranks, block_rows)]
            assert checkpoints.by_key(blocks) == checkpoints.by_key([whole.block])
            assert sum(len(block.keys) for block in blocks) == len(whole.block.keys)
        with open_keys(prefix) as checkpoint:
            counts = {key: count for block in checkpoint.counts("user")
                      for key, count in zip(block.keys.tolist(), block.counts.tolist())}
            assert counts == {key: value for key, (_, value) in state.items()}


@pytest.fixture
def three(tmp_path):
    """A full checkpoint of step 1, a delta of step 2 upon it, and one of step 3 upon that: their prefixes."""
    one = checkpoints.save(tmp_path, 1, [table({1: (ROW, 1), 2: (ROW, 1), 3: (CANDIDATE, 1)})])
    two = checkpoints.save(tmp_path, 2, [table({2: (CANDIDATE, 2), 3: (ROW, 2)}, [1])], parent=one)
    return one, two, checkpoints.save(tmp_path, 3, [table({1: (ROW, 3)})], parent=two)


def test_deltas_that_were_exchanged_are_refused(three):
    one, two, three = three
    for source, target in ((directory_of(two), "aside"), (directory_of(three), directory_of(two)),
                           ("aside", directory_of(three))):
        os.rename(os.path.join(os.path.dirname(two), source), os.path.join(os.path.dirname(two), target))
    for prefix in (two, three):
        with pytest.raises(DamagedCheckpointError, match="it was saved under the name"):
            open_checkpoint(prefix)
    assert [found.prefix for found in complete_checkpoints(os.path.dirname(one))] == [one]


def directory_of(prefix):
    folder, stem = os.path.split(prefix)
    return os.path.join(folder, ("delta-sparse-" if is_delta(prefix) else "sparse-") + stem)


def test_keys_change_kind_go_and_come_back(three):
    with open_checkpoint(three[2]) as checkpoint:
        checkpoints.assert_holds(checkpoint, [table({1: (ROW, 3), 2: (CANDIDATE, 2), 3: (ROW, 2)})])
        with open(checkpoint.dense_prefix + ".index") as file:
            assert file.read() == "dense of step 3.index"
    assert os.path.samefile(three[2] + ".index", os.path.join(directory_of(three[2]), "dense-part/model.ckpt-3.index"))


def test_rows_of_a_checkpoint_that_was_opened_for_its_keys_are_an_error(three):
    for prefix in three:
        with open_keys(prefix) as checkpoint, pytest.raises(ValueError, match="embedding of table 'user' was not veri"):
            list(checkpoint.blocks("user"))


@pytest.mark.parametrize("changed, file", [(1, "user/deleted_key/slice.data"), *(
    (number, file) for number in range(3)
    for file in ("user/embedding/slice.data", "MANIFEST.json", "dense-part/model.ckpt-{}.index"))])
def test_damage_of_any_member_is_found_before_anything_is_read(three, changed, file):
    path = os.path.join(directory_of(three[changed]), file.format(changed + 1))
    with open(path, "r+b") as opened:
        first = opened.read(1)
        opened.seek(0)
        opened.write(bytes([first[0] ^ 1]))
    for number, prefix in enumerate(three):
        if number < changed:
            open_checkpoint(prefix).close()
            continue
        with pytest.raises(DamagedCheckpointError, match=os.path.basename(directory_of(three[changed]))):
            open_checkpoint(prefix)


def test_a_delta_without_what_it_stands_upon_is_an_error_and_not_complete(three, tmp_path):
    assert [(found.prefix, found.is_delta) for found in complete_checkpoints(str(tmp_path))] == list(
        zip(three, [False, True, True]))
    os.rename(directory_of(three[1]), str(tmp_path / "aside"))
    with pytest.raises(DamagedCheckpointError, match="on model.ckpt-2, but .*/sparse-model.ckpt-2 does not exist"):
        open_checkpoint(three[2])
    assert [found.prefix for found in complete_checkpoints(str(tmp_path))] == [three[0]]


def test_a_delta_upon_another_checkpoint_of_that_name_is_an_error(three, tmp_path):
    checkpoints.save(tmp_path, 1, [table({1: (ROW, 1), 2: (ROW, 9)})])
    with pytest.raises(DamagedCheckpointError, match="it is based on another model.ckpt-1 than"):
        open_checkpoint(three[2])
    assert [found.prefix for found in complete_checkpoints(str(tmp_path))] == [three[0]]


def test_a_delta_upon_other_tables_is_an_error(three, tmp_path):
    prefix = checkpoints.save(tmp_path, 4, [content("item")], parent=three[2])
    with pytest.raises(DamagedCheckpointError, match="its tables differ from the tables of the delta"):
        open_checkpoint(prefix)


def test_a_directory_that_is_a_delta_by_its_name_only_is_an_error(three, tmp_path):
    os.rename(directory_of(three[0]), str(tmp_path / "delta-sparse-model.ckpt-1"))
    with pytest.raises(DamagedCheckpointError, match="it belongs to a full checkpoint"):
        open_checkpoint(three[0])
    os.rename(directory_of(three[2]), str(tmp_path / "sparse-model.ckpt-3"))
    with pytest.raises(DamagedCheckpointError, match="it belongs to a delta"):
        open_checkpoint(three[2])


def test_a_delta_of_rec_sdk_says_that_the_full_one_can_be_restored(tmp_path):
    (tmp_path / "delta-sparse-model.ckpt-5" / "user" / "key").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="its base is unknown.*Restore the full checkpoint before it"):
        open_checkpoint(str(tmp_path / "model.ckpt-5"), allow_unverified=True)


@pytest.mark.parametrize("step", [1, 2])
def test_a_delta_replaces_nothing(three, tmp_path, step):
    before = checkpoints.tree_of(tmp_path)
    with pytest.raises(NotSavedError, match="already exists, and a delta does not replace anything. Save a full"):
        checkpoints.save(tmp_path, step, [table({})], parent=three[2])
    assert checkpoints.tree_of(tmp_path) == before


def test_a_full_checkpoint_has_its_name_before_a_delta(three, tmp_path):
    prefix = checkpoints.save(tmp_path, 3, [table({7: (ROW, 7)})])
    assert not is_delta(prefix)
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, [table({7: (ROW, 7)})])


def test_what_a_delta_stands_upon_is_not_removed_before_it(three, tmp_path):
    for below, above in ((three[0], "model.ckpt-2"), (three[1], "model.ckpt-3")):
        with pytest.raises(NotRemovedError, match="the delta {} is based on it".format(above)):
            remove_checkpoint(below)
    checkpoints.save(tmp_path, 9, [table({})], base="other", parent=checkpoints.save(
        tmp_path, 8, [table({})], base="other"))
    assert deltas_of(str(tmp_path), "model.ckpt") == [three[2], three[1]]
    for prefix in (*deltas_of(str(tmp_path), "model.ckpt"), three[0]):
        remove_checkpoint(prefix)
    assert [found.step for found in complete_checkpoints(str(tmp_path))] == [8, 9]
    assert not [name for name in os.listdir(str(tmp_path)) if "model" in name]


def test_deleted_keys_are_as_the_spec_says_and_only_in_a_delta(three, tmp_path):
    wrong = table({4: (ROW, 1)}, [1, 2])
    wrong.deleted = wrong.deleted[:1]
    with pytest.raises(ValueError, match=r"deleted keys are int64\[1\], expected int64\[2\]"):
        checkpoints.save(tmp_path, 4, [wrong], parent=three[2])
    with pytest.raises(ValueError, match=r"deleted: 1 is not an int in \[0, 0\]"):
        checkpoints.save(tmp_path, 4, [table({}, [1])])
    prefix = checkpoints.save(tmp_path, 4, [table({1: (ROW, 1)}, [1])], parent=three[2])
    with pytest.raises(DamagedCheckpointError, match="key 1 occurs twice"):
        open_checkpoint(prefix)


def test_a_chain_has_an_end(three, tmp_path, monkeypatch):
    monkeypatch.setattr("ascpipe.checkpoint.reader.MAX_DELTAS", 1)
    open_checkpoint(three[1]).close()
    with pytest.raises(DamagedCheckpointError, match="the chain has more than 1 deltas"):
        open_checkpoint(three[2])


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", [disk_faults.KILL, errno.ENOSPC])
def test_a_delta_cut_at_any_call_leaves_what_it_stands_upon(tmp_path, monkeypatch, fault, stride):
    def cut(folder, at):
        one = checkpoints.save(folder, 1, [table({1: (ROW, 1), 2: (ROW, 1)})])
        faulty = disk_faults.FaultyDisk(at, fault)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", faulty)
            disk_faults.sync_by(faulty.fsync, patch)
            try:
                checkpoints.save(folder, 2, [table({2: (ROW, 2)}, [1])], parent=one)
            except (disk_faults.KilledError, CheckpointError):
                pass
        with open_checkpoint(one) as checkpoint:
            checkpoints.assert_holds(checkpoint, [table({1: (ROW, 1), 2: (ROW, 1)})])
        steps = [found.step for found in complete_checkpoints(str(folder))]
        if 2 in steps:
            with open_checkpoint(str(folder / "model.ckpt-2")) as checkpoint:
                checkpoints.assert_holds(checkpoint, [table({2: (ROW, 2)})])
        checkpoints.save(folder, 3, [table({})])
        assert not [name for name in os.listdir(str(folder)) if name.startswith(".")]
        return len(faulty.calls), steps

    calls, steps = cut(tmp_path / "counted", 0)
    assert steps == [1, 2]
    ends = {tuple(cut(tmp_path / str(at), at)[1])
            for at in [*range(1, calls - 20, 23 * stride), *range(calls - 20, calls + 1, stride)]}
    assert ends == {(1,), (1, 2)}


def index(folder):
    with open(str(folder / "model_index.json")) as file:
        entries = [(entry["type"], entry["export_tag"], entry["global_step"], entry["cost_ms"])
                   for entry in json.load(file)]
    with open(str(folder / "delta_export_time_ms.json")) as file:
        return entries, sorted(json.load(file))


def test_the_index_tells_of_the_checkpoints_that_are_there(three, tmp_path):
    for prefix in three:
        model_index.note_saved(prefix, cost_s=0.25)
    entries = [("base", "DueTime", 1, 250), ("delta", "Seconds", 2, 250), ("delta", "Seconds", 3, 250)]
    assert index(tmp_path) == (entries, ["delta_2", "delta_3"])
    remove_checkpoint(three[2])
    model_index.note_saved(three[1], cost_s=1)
    assert index(tmp_path) == ([entries[0], ("delta", "Seconds", 2, 1000)], ["delta_2"])


@pytest.mark.parametrize("garbage", [b"", b"{", b"[1, {\"type\": []}]", b"{}", b"\xff", b"[" * 100000], ids=range(6))
def test_an_index_that_is_none_is_begun_anew(three, tmp_path, garbage):
    for name in (model_index.INDEX, model_index.DELTA_TIMES, ".{}.new".format(model_index.INDEX)):
        (tmp_path / name).write_bytes(garbage)
    model_index.note_saved(three[1], cost_s=1)
    assert index(tmp_path) == ([("delta", "Seconds", 2, 1000)], ["delta_2"])


def test_an_index_that_cannot_be_written_is_a_line_in_the_log(three, tmp_path, monkeypatch, caplog):
    (tmp_path / model_index.INDEX).mkdir()
    model_index.note_saved(three[1], cost_s=1)
    assert "is complete, but model_index.json was not updated" in caplog.text
