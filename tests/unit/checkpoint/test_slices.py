"""A checkpoint of several ranks: each writes its slice, rank 0 makes them one, and any number of ranks reads it."""
import contextlib
import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.checkpoint import disk, staging
from ascpipe.checkpoint.contents import Block, KeyBlock
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NotSavedError
from ascpipe.checkpoint.keys import belongs
from ascpipe.checkpoint.manifest import Manifest, decoded_manifest, encoded_manifest
from ascpipe.checkpoint.paths import slice_record
from ascpipe.checkpoint.reader import open_checkpoint, trained_batches
from ascpipe.checkpoint.retention import complete_checkpoints, remove_checkpoint
from ascpipe.checkpoint.slice_writer import SliceWriter
from ascpipe.checkpoint.writer import CheckpointWriter
from tests.support import checkpoints, disk_faults
from tests.support.checkpoints import Content, by_key, content, link_to, position, sliced, write_dense
from tests.support.covering import example_count


def share(one, rank, ranks):
    """What a rank has of a table."""
    rows, others = (belongs(block.keys, rank, ranks) for block in (one.block, one.candidates))
    deleted = None if one.deleted is None else one.deleted[belongs(one.deleted, rank, ranks)]
    policies = one.spec.policies._replace(time=one.spec.policies.time - (rank + 1) % ranks)
    spec = one.spec._replace(rows=int(rows.sum()), candidates=int(others.sum()), policies=policies,
                             deleted=0 if deleted is None else len(deleted))
    return Content(spec, Block(*(values[rows] for values in one.block)),
                   KeyBlock(*(values[others] for values in one.candidates)), one.pool, deleted)


def write(writer, contents):
    for one in contents:
        writer.write_table(one.spec.name, sliced(one.block, 7), sliced(one.candidates, 7), one.pool, one.deleted)


def write_slice(directory, step, staging_name, rank, ranks, contents, *, delta=False, written=None):
    """The digest of a rank's slice."""
    mine = [share(one, rank, ranks) for one in contents]
    with SliceWriter(str(directory), "model.ckpt", step, staging_name, rank, ranks, written) as writer:
        writer.begin_tables([one.spec for one in mine], delta=delta)
        write(writer, mine)
        return writer.finish(position(mine, batches=step + 1)._replace(run_id="run of {}".format(rank)))


@contextlib.contextmanager
def rank_0(directory, step, ranks, contents, *, parent=None):
    """Its writer, when it has written its own slice."""
    mine = [share(one, 0, ranks) for one in contents]
    with CheckpointWriter(str(directory), "model.ckpt", step, ranks=ranks) as writer:
        writer.begin_tables([one.spec for one in mine], None if parent is None else link_to(parent))
        write_dense(writer, "dense")
        write(writer, mine)
        yield writer


def save(directory, step, ranks, contents, *, parent=None):
    """Save these tables on so many ranks; the prefix."""
    with rank_0(directory, step, ranks, contents, parent=parent) as writer:
        slices = [write_slice(directory, step, writer.staging_name, rank, ranks, contents, delta=parent is not None)
                  for rank in range(1, ranks)]
        return writer.commit(position(contents, batches=step + 1), slices)


def assert_holds(checkpoint, contents, ranks):
    """It holds these tables, for one rank and for as many others."""
    checkpoints.assert_holds(checkpoint, contents)
    for one in contents:
        name = one.spec.name
        for read in range(1, 5):
            for rank in range(read):
                mine = share(one, rank, read)
                assert by_key(checkpoint.blocks(name, rank, read, block_rows=5)) == by_key([mine.block])
                assert by_key(checkpoint.candidates(name, rank, read)) == by_key([mine.candidates])
                assert checkpoint.rows_of(name, rank, read) == (mine.spec.rows, mine.spec.candidates)
                keys = np.concatenate([np.empty(0, np.int64), *(
                    block.keys for block in checkpoint.keys_with_rows(name, rank, read))])
                rows = np.concatenate([np.empty((0, one.spec.row_floats), np.float32), *(
                    np.concatenate(parts, axis=1) for parts in
                    checkpoint.row_parts(name, lambda first, n: [None, None, None], rank, read))])
                there = dict(zip(one.block.keys.tolist(), one.block.rows))
                assert all((there[int(key)] == row).all() for key, row in zip(keys, rows))
    assert len(checkpoint.positions) == ranks


@settings(max_examples=example_count(10, 100), deadline=None)
@given(ranks=st.integers(1, 4), rows=st.integers(0, 40), candidates=st.integers(0, 9), seed=st.integers(0, 99),
       pool=st.sampled_from([0, 3]))
def test_any_number_of_ranks_reads_what_any_number_wrote(tmp_path_factory, ranks, rows, candidates, seed, pool):
    contents = [content("user", rows, candidates, seed=seed, pool_rows=pool), content("item", 3, 1, seed=seed + 1)]
    with open_checkpoint(save(tmp_path_factory.mktemp("saved"), 3, ranks, contents)) as checkpoint:
        assert_holds(checkpoint, contents, ranks)


def test_one_rank_writes_what_it_always_wrote(tmp_path):
    prefix = save(tmp_path, 3, 1, [content()])
    with open(os.path.join(str(tmp_path), "sparse-model.ckpt-3", "MANIFEST.json")) as file:
        manifest = json.load(file)
    assert manifest["version"] == 2
    assert sorted(manifest) == ["format", "parent", "position", "saved_at", "seal", "stem", "step", "tables", "version"]
    assert sorted(os.listdir(str(tmp_path / "sparse-model.ckpt-3" / "user" / "key"))) == [
        "slice.attribute", "slice.data"]
    assert trained_batches(prefix) == {"train 'é'": 4}


def test_each_rank_has_files_of_its_own_and_its_position(tmp_path):
    prefix = save(tmp_path, 3, 3, [content(pool_rows=2)])
    folder = tmp_path / "sparse-model.ckpt-3"
    assert sorted(os.listdir(str(folder))) == ["ASCPIPE", "MANIFEST.json", "PAIR.json", "dense-part", "user"]
    assert sorted(os.listdir(str(folder / "user" / "key"))) == sorted(
        "slice_{}.{}".format(rank, part) for rank in range(3) for part in ("attribute", "data"))
    assert sorted(os.listdir(str(folder / "user" / "initial_pool"))) == ["slice_0.attribute", "slice_0.data"]
    with open_checkpoint(prefix) as checkpoint:
        assert [one.run_id for one in checkpoint.positions] == ["run-4", "run of 1", "run of 2"]
        assert checkpoint.position == checkpoint.positions[0]
    found = complete_checkpoints(str(tmp_path))
    assert [one.prefix for one in found] == [prefix]
    remove_checkpoint(prefix)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("ranks", [2, 3])
def test_deltas_of_several_ranks_stand_upon_each_other(tmp_path, ranks):
    whole = content("user", 30, 6, seed=1)
    full = save(tmp_path, 1, ranks, [whole])
    changed, gone = whole.block.keys[:8], whole.block.keys[8:12]
    later = content("user", 8, 0, seed=2)
    block = later.block._replace(keys=changed)
    told = Content(later.spec._replace(deleted=len(gone)), block, later.candidates, None, gone)
    prefix = save(tmp_path, 2, ranks, [told], parent=full)
    kept = ~np.isin(whole.block.keys, np.concatenate([changed, gone]))
    rows = Block(*(np.concatenate([mine[kept], new]) for mine, new in zip(whole.block, block)))
    with open_checkpoint(prefix) as checkpoint:
        assert_holds(checkpoint, [Content(later.spec._replace(rows=len(rows.keys), candidates=6), rows,
                                          whole.candidates)], ranks)
        assert len(checkpoint.deleted("user")) == 0


def test_a_key_in_the_slice_of_another_rank_is_damage(tmp_path):
    contents = [content()]
    with rank_0(tmp_path, 3, 2, contents) as writer:
        swapped = Content(contents[0].spec, contents[0].block._replace(keys=contents[0].block.keys + 1),
                          contents[0].candidates)
        mine = share(contents[0], 1, 2)
        with SliceWriter(str(tmp_path), "model.ckpt", 3, writer.staging_name, 1, 2) as other:
            other.begin_tables([mine.spec], delta=False)
            write(other, [Content(mine.spec, mine.block._replace(keys=mine.block.keys ^ 1), mine.candidates)])
            digest = other.finish(position([mine]))
        prefix = writer.commit(position(contents), [digest])
    assert swapped is not None
    with pytest.raises(DamagedCheckpointError, match="does not belong to rank 1 of 2"):
        open_checkpoint(prefix)


@pytest.mark.parametrize("name", ["key", "embedding", "LazyAdam_momentum", "count", "candidate_key"])
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.each_value
def test_a_changed_byte_in_any_slice_is_damage(tmp_path, name, rank):
    prefix = save(tmp_path, 3, 2, [content()])
    path = tmp_path / "sparse-model.ckpt-3" / "user" / name / "slice_{}.data".format(rank)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(DamagedCheckpointError, match="slice_{}.data".format(rank)):
        open_checkpoint(prefix)


def test_a_missing_slice_is_damage(tmp_path):
    prefix = save(tmp_path, 3, 2, [content()])
    (tmp_path / "sparse-model.ckpt-3" / "user" / "embedding" / "slice_1.data").unlink()
    with pytest.raises(DamagedCheckpointError, match="slice_1.data"):
        open_checkpoint(prefix)


@pytest.mark.parametrize("change, text", [
    (lambda spec: spec._replace(dim=5), "its dim is 4 on rank 0 and 5 on rank 1"),
    (lambda spec: spec._replace(initial=spec.initial._replace(seed=5)), "its initial is"),
    (lambda spec: spec._replace(policies=spec.policies._replace(access_threshold=9)), "its policies is"),
    (lambda spec: spec._replace(name="item"), r"rank 0 has the tables \['user'\], rank 1 has \['item'\]")])
def test_slices_of_other_tables_are_not_saved(tmp_path, change, text):
    contents = [content(rows=0, candidates=0)]
    with pytest.raises(NotSavedError, match=text), rank_0(tmp_path, 3, 2, contents) as writer:
        spec = change(share(contents[0], 1, 2).spec)
        with SliceWriter(str(tmp_path), "model.ckpt", 3, writer.staging_name, 1, 2) as other:
            other.begin_tables([spec], delta=False)
            other.write_table(spec.name, [])
            digest = other.finish(position([Content(spec, None, None)]))
        writer.commit(position(contents), [digest])
    assert os.listdir(str(tmp_path)) == []


def test_a_record_that_is_another_one_or_none_is_not_saved(tmp_path):
    contents = [content()]
    for spoil, text in ((lambda path: os.unlink(path), "All ranks must save to one file system"),
                        (lambda path: open(path, "ab").close() or os.truncate(path, 9), "differs from what rank 1")):
        with pytest.raises(NotSavedError, match=text), rank_0(tmp_path, 3, 2, contents) as writer:
            digest = write_slice(tmp_path, 3, writer.staging_name, 1, 2, contents)
            spoil(str(tmp_path / writer.staging_name / slice_record(1)))
            writer.commit(position(contents), [digest])
        assert os.listdir(str(tmp_path)) == []


def test_a_record_of_another_rank_or_a_delta_is_not_taken(tmp_path):
    contents = [content()]
    with pytest.raises(NotSavedError, match="it belongs to rank"), rank_0(tmp_path, 3, 3, contents) as writer:
        digests = [write_slice(tmp_path, 3, writer.staging_name, rank, 3, contents) for rank in (1, 2)]
        one, two = (str(tmp_path / writer.staging_name / slice_record(rank)) for rank in (1, 2))
        os.rename(one, one + ".aside")
        os.rename(two, one)
        os.rename(one + ".aside", two)
        writer.commit(position(contents), digests[::-1])
    with pytest.raises(ValueError, match="0 slices of other ranks, but there are 2 ranks"), \
            rank_0(tmp_path, 3, 2, contents) as writer:
        writer.commit(position(contents))


@pytest.mark.parametrize("name", ["../evil", "sparse-model.ckpt-3", ".tmp-ascpipe-/x"])
def test_a_slice_is_written_only_into_a_directory_of_a_save(tmp_path, name):
    with pytest.raises(ValueError, match="cannot write its slice"):
        SliceWriter(str(tmp_path), "model.ckpt", 3, name, 1, 2)
    for made in (lambda path: os.mkdir(path), lambda path: os.symlink(str(tmp_path), path)):
        path = str(tmp_path / staging.new_name())
        made(path)
        with pytest.raises(NotSavedError, match="not a directory"), \
                SliceWriter(str(tmp_path), "model.ckpt", 3, os.path.basename(path), 1, 2):
            pass


def test_a_directory_that_rank_0_has_removed_is_an_error_of_the_save(tmp_path):
    contents = [content()]
    with rank_0(tmp_path, 3, 2, contents) as writer:
        name = writer.staging_name
    with pytest.raises(NotSavedError, match="No such file"):
        write_slice(tmp_path, 3, name, 1, 2, contents)


def test_a_manifest_of_slices_that_differ_is_none(tmp_path):
    prefix = save(tmp_path, 3, 2, [content()])
    with open_checkpoint(prefix), open(str(tmp_path / "sparse-model.ckpt-3" / "MANIFEST.json"), "rb") as file:
        manifest = decoded_manifest(file.read())
    assert decoded_manifest(encoded_manifest(manifest)) == manifest
    first, second = manifest.slices
    other = second._replace(tables=tuple(spec._replace(key_dtype="int32") for spec in second.tables))
    with pytest.raises(ValueError, match="key_dtype is 'int64' on rank 0 and 'int32' on rank 1"):
        decoded_manifest(encoded_manifest(Manifest(*manifest._replace(slices=(first, other)))))


BEFORE, AFTER = [content("user", 9, 3, seed=1)], [content("user", 11, 2, seed=3)]


class _DiskOfRanks:
    """Stands for ``os`` in ``ascpipe.checkpoint.disk``: one rank's calls may fail."""

    def __init__(self, killed, at, fault):
        self.rank, self._killed = 0, killed
        self.faulty = disk_faults.FaultyDisk(at, fault)

    def __getattr__(self, name):
        return getattr(self.faulty if self.rank == self._killed else os, name)


def cut_save(folder, monkeypatch, killed, at=0, fault=None):
    """A save of two ranks, one of which meets a fault at a system call; the calls that it made."""
    of_ranks = _DiskOfRanks(killed, at, fault)
    mine = [share(one, 0, 2) for one in AFTER]
    with monkeypatch.context() as patch:
        patch.setattr(disk, "os", of_ranks)
        disk_faults.sync_by(lambda fd: of_ranks.faulty.fsync(fd) if of_ranks.rank == killed else None, patch)
        with contextlib.suppress(disk_faults.KilledError, CheckpointError), \
                CheckpointWriter(str(folder), "model.ckpt", 2, ranks=2) as writer:
            writer.begin_tables([one.spec for one in mine])
            try:
                of_ranks.rank = 1
                digest = write_slice(folder, 2, writer.staging_name, 1, 2, AFTER)
            finally:
                of_ranks.rank = 0
            write_dense(writer, "dense")
            write(writer, mine)
            writer.commit(position(AFTER, batches=3), [digest])
    return of_ranks.faulty.calls


@pytest.mark.timeout_s(240)
@pytest.mark.parametrize("killed", [0, 1])
@pytest.mark.parametrize("fault", [disk_faults.KILL, errno.ENOSPC])
@pytest.mark.parametrize("stride", [11, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.each_value
def test_a_rank_that_is_killed_or_refused_at_any_call_leaves_all_or_nothing(tmp_path, monkeypatch, killed, fault,
                                                                            stride):
    calls = len(cut_save(tmp_path / "count", monkeypatch, killed))
    assert calls > 30
    whole = 0
    for at in range(1, calls + 1, stride):
        folder = tmp_path / str(at)
        save(folder, 1, 2, BEFORE)
        cut_save(folder, monkeypatch, killed, at, fault)
        steps = [one.step for one in complete_checkpoints(str(folder))]
        assert steps in ([1], [1, 2])
        whole += steps == [1, 2]
        for step, contents in zip(steps, (BEFORE, AFTER)):
            with open_checkpoint(str(folder / "model.ckpt-{}".format(step))) as checkpoint:
                checkpoints.assert_holds(checkpoint, contents)
        save(folder, 3, 2, AFTER)
        assert not [name for name in os.listdir(str(folder)) if name.startswith(".")]
    assert whole < calls / 10
