"""Table files as checkpoints become them, and the ops that look keys up in them, without a pipeline."""
import os

import numpy as np
import pytest
import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import Block
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.table_file import write_table_file
from ascpipe.tf.running import native
from tests.support import checkpoints
from tests.tf import programs

DIM = 4


def written(folder, prefix, table="user"):
    """The path of a new table file, and what was said of it."""
    with open_checkpoint(prefix) as checkpoint:
        directory = disk.open_directory(str(folder))
        try:
            return str(folder / "file"), write_table_file(checkpoint, table, directory, "file")
        finally:
            disk.close(directory)


def found(path, file, keys, default_row=-1.0, dim=DIM, session_config=None):
    """Rows of keys, in a session of its own."""
    with tf.Graph().as_default():
        table = native.ops().asc_served_table(shared_name="table")
        opened = native.ops().asc_open_served_table(table=table, path=path, seal=file.seal)
        rows = native.ops().asc_served_lookup(table=table, keys=keys, default_row=default_row, dim=dim)
        assert rows.shape.as_list() == [*np.shape(keys), dim]
        with programs.session(**(session_config or {})) as run:
            run.run(opened)
            run.run(opened)  # nothing is done
            return run.run(rows)


def has_rows(path, file, keys):
    """What the op that tells of keys without a row tells; its rows are those of the other op."""
    with tf.Graph().as_default():
        table = native.ops().asc_served_table(shared_name="table")
        opened = native.ops().asc_open_served_table(table=table, path=path, seal=file.seal)
        plain = native.ops().asc_served_lookup(table=table, keys=keys, default_row=-1.0, dim=DIM)
        rows, known = native.ops().asc_served_lookup_found(table=table, keys=keys, default_row=-1.0, dim=DIM)
        assert (rows.shape.as_list(), known.shape.as_list()) == ([*np.shape(keys), DIM], [*np.shape(keys)])
        with programs.session(intra_op_parallelism_threads=2) as run:
            run.run(opened)
            plain, rows, known = run.run([plain, rows, known])
            assert plain.tobytes() == rows.tobytes()
            return known


def shown(content):
    """key -> embedding of each key that is not hidden by the access threshold."""
    threshold = content.spec.policies.access_threshold
    return {key: row[:content.spec.dim] for key, row, count in zip(
        content.block.keys.tolist(), content.block.rows, content.block.counts.tolist()) if count >= threshold}


def require_rows(path, file, rows, unknown, **kwargs):
    """The file has these rows and gives the default for other keys."""
    assert file.rows == len(rows)
    keys = np.array([*rows, *unknown], np.int64)
    wanted = np.array([*rows.values(), *[np.full(DIM, -1.0)] * len(unknown)], np.float32)
    assert found(path, file, keys, **kwargs).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("rows", [0, 1, 20, 3000])
def test_every_key_of_a_checkpoint_is_looked_up_bit_by_bit_but_those_that_are_hidden(rows, tmp_path):
    content = checkpoints.content(rows=rows, candidates=9, dim=DIM)
    content.block = content.block._replace(counts=content.block.counts % 20)
    path, file = written(tmp_path, checkpoints.save(tmp_path, 1, [content], block_rows=700))
    wanted = shown(content)
    assert (rows < 20) or 0 < len(wanted) < rows
    hidden = sorted(set(content.block.keys.tolist()) - set(wanted))
    unknown = [*hidden, *content.candidates.keys.tolist(), 5, 7]
    require_rows(path, file, wanted, unknown)
    require_rows(path, file, wanted, unknown, session_config={"intra_op_parallelism_threads": 4})


def test_a_delta_becomes_a_file_with_all_that_it_stands_upon(tmp_path):
    first = checkpoints.content(rows=30, dim=DIM)
    base = checkpoints.save(tmp_path, 1, [first])
    old, others = first.block.keys, checkpoints.content(rows=10, candidates=0, dim=DIM, seed=5).block
    newer = Block(np.concatenate([old[4:9], others.keys[4:]]), np.concatenate([others.rows[:5], others.rows[4:]]),
                  np.full(11, 7, np.int64), np.full(11, 7, np.int64))
    spec = first.spec._replace(rows=11, candidates=0, deleted=2)
    delta = checkpoints.Content(spec, newer, checkpoints.content(candidates=0).candidates, deleted=np.sort(old[20:22]))
    path, file = written(tmp_path, checkpoints.save(tmp_path, 2, [delta], parent=base))
    rows = {**shown(first), **shown(delta)}
    for key in old[20:22].tolist():
        rows.pop(key, None)
    require_rows(path, file, rows, old[20:22].tolist())


def test_keys_of_any_shape_and_both_types_are_looked_up_and_the_default_may_be_a_row(tmp_path):
    content = checkpoints.content(rows=4, dim=DIM)
    content.block = content.block._replace(keys=np.array([0, -1, 2 ** 40, 7]), counts=np.full(4, 3, np.int64))
    path, file = written(tmp_path, checkpoints.save(tmp_path, 1, [content]))
    rows = shown(content)
    assert found(path, file, np.int64(-1)).tolist() == rows[-1].tolist()
    keys = np.array([[[0], [8]], [[-1], [0]]], np.int32)
    default = np.arange(DIM, dtype=np.float32)
    wanted = [rows[0], default, rows[-1], rows[0]]
    assert found(path, file, keys, default).reshape(-1, DIM).tolist() == np.array(wanted).tolist()
    assert found(path, file, np.zeros([0, 3], np.int64)).shape == (0, 3, DIM)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_lookup_tells_which_keys_have_rows(dtype, tmp_path):
    content = checkpoints.content(rows=3000, dim=DIM)
    keys = np.random.RandomState(4).permutation(9000).astype(dtype)
    content.block = content.block._replace(keys=keys[:3000].astype(np.int64), counts=np.full(3000, 3, np.int64))
    path, file = written(tmp_path, checkpoints.save(tmp_path, 1, [content]))
    assert has_rows(path, file, keys.reshape(30, 300)).reshape(-1).tolist() == [True] * 3000 + [False] * 6000
    assert has_rows(path, file, keys[:0]).shape == (0,)


def refusal(kind, path, file, **kwargs):
    with pytest.raises(kind) as refused:
        found(path, file, **{"keys": np.array([1], np.int64), **kwargs})
    return refused.value.message


def test_a_file_that_is_damaged_missing_or_of_another_export_is_an_error_that_names_it(tmp_path):
    content = checkpoints.content(rows=20, dim=DIM)
    path, file = written(tmp_path, checkpoints.save(tmp_path, 1, [content]))
    lookup = tf.errors.FailedPreconditionError
    assert "{} is complete, but belongs to another export".format(path) in refusal(
        lookup, path, file._replace(seal=(file.seal + 1) % 2 ** 32))
    assert "{}-none cannot be read: No such file".format(path) in refusal(lookup, path + "-none", file)
    assert "has rows of 4 floats, the lookup wants 5" in refusal(lookup, path, file, dim=5)
    assert "default_row has shape [3], expected [] or [4]" in refusal(
        tf.errors.InvalidArgumentError, path, file, default_row=np.zeros(3, np.float32))
    with open(path, "r+b") as opened:
        opened.seek(300)
        opened.write(b"x")
    text = refusal(tf.errors.DataLossError, path, file)
    assert "{} is damaged: bytes 0 to ".format(path) in text and "Copy the exported SavedModel again" in text
    os.truncate(path, 100)
    text = refusal(tf.errors.DataLossError, path, file)
    assert "its header says 20 rows of 4 floats in 2^3 buckets, and it has 100 bytes" in text


def test_a_lookup_before_its_table_is_open_says_what_opens_it():
    with tf.Graph().as_default(), programs.session() as run:
        table = native.ops().asc_served_table(shared_name="ascpipe/user/1")
        rows = native.ops().asc_served_lookup(table=table, keys=tf.constant([1]), default_row=0.0, dim=DIM)
        with pytest.raises(tf.errors.FailedPreconditionError, match="ascpipe/user/1 is not open.*tables_initializer"):
            run.run(rows)


def test_a_file_that_the_disk_refuses_is_not_left_behind(tmp_path, monkeypatch):
    prefix = checkpoints.save(tmp_path, 1, [checkpoints.content(rows=20, dim=DIM)])

    def refuse(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "sync", refuse)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path, prefix)
    assert not (tmp_path / "file").exists()
