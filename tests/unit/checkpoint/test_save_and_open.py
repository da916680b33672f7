"""What was saved is what is read: by us, by numpy, by any number of ranks."""
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.checkpoint import disk
from ascpipe.checkpoint import keys as key_rules
from ascpipe.checkpoint.contents import PartedBlock
from ascpipe.checkpoint.errors import NoCheckpointError
from ascpipe.checkpoint.reader import open_checkpoint, trained_batches
from tests.reference import dealing
from tests.support import checkpoints
from tests.support.checkpoints import content
from tests.support.covering import example_count


def test_what_was_saved_is_what_is_read(tmp_path):
    contents = [content("user", 50, 9), content("item", 3, 0, slots=(), seed=1), content("shop", 0, 4, seed=2),
                content("dense", 5, 0, pool_rows=8, seed=3)]
    prefix = checkpoints.save(tmp_path, 12, contents)
    assert prefix == str(tmp_path / "model.ckpt-12")
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, contents)
        assert (checkpoint.step, checkpoint.verified) == (12, True)
        assert checkpoint.position == checkpoints.position(contents, 13)
        with open(checkpoint.dense_prefix + ".index") as file:
            assert file.read() == "dense of step 12.index"
    assert trained_batches(prefix) == {"train 'é'": 13}


TABLES = st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 9), st.integers(0, 4), st.integers(0, 5))


@given(st.lists(TABLES, min_size=1, max_size=3), st.integers(1, 50), st.integers(1, 50))
@settings(max_examples=example_count(20, 200))
def test_tables_of_any_shape_come_back_whole(tmp_path_factory, tables, rows_written, rows_read):
    folder = tmp_path_factory.mktemp("saved")
    contents = [content("t{}".format(number), rows, candidates, dim=dim, pool_rows=pool, seed=number,
                        slots=tuple("Opt_{}".format(slot) for slot in range(slots)))
                for number, (rows, candidates, dim, slots, pool) in enumerate(tables)]
    prefix = checkpoints.save(folder, 0, contents, block_rows=rows_written)
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, contents)
        for one in contents:
            blocks = list(checkpoint.blocks(one.spec.name, block_rows=rows_read))
            assert all(1 <= len(block.keys) <= rows_read for block in blocks)


def test_rows_in_parts_are_saved_and_read_as_those_in_one_piece(tmp_path):
    one = content("user", 9000, 4, dim=20, slots=("ftrl_accum", "ftrl_linear", "step"))  # more than one write of a file
    keys, rows, counts, timestamps = one.block
    parts = (np.asfortranarray(rows[:, :20]), rows[:, 20:41])  # embedding; two slots of 20 and 1; the third is 20 wide
    whole = checkpoints.save(tmp_path / "whole", 1, [one], block_rows=5000)
    with checkpoints.writing(tmp_path / "parts", "model.ckpt", 1, [one.spec]) as writer:
        writer.write_table("user", [PartedBlock(keys, (*parts, rows[:, 41:]), counts, timestamps)], [one.candidates])
        checkpoints.write_dense(writer, "dense")
        writer.commit(checkpoints.position([one]))
    for prefix in (whole, str(tmp_path / "parts/model.ckpt-1")):
        with open_checkpoint(prefix) as checkpoint:
            checkpoints.assert_holds(checkpoint, [one])
            (block,) = checkpoint.parted_blocks("user")
            assert [part.shape[1] for part in block.parts] == [20, 20, 1, 20]
            assert checkpoints.by_key([block.joined()]) == checkpoints.by_key([one.block])


@pytest.mark.parametrize("cut", [3, 5])
def test_a_part_of_a_row_that_lies_in_two_pieces_is_an_error(tmp_path, cut):
    one = content(slots=("ftrl_accum",))
    keys, rows, counts, timestamps = one.block
    block = PartedBlock(keys, (rows[:, :cut], rows[:, cut:]), counts, timestamps)
    with pytest.raises(ValueError, match="no part of the rows has all of these 4 columns"):
        with checkpoints.writing(tmp_path, "model", 1, [one.spec]) as writer:
            writer.write_table("user", [block], [one.candidates])
    assert os.listdir(str(tmp_path)) == []


def test_rows_that_change_while_they_are_written_damage_nothing(tmp_path, monkeypatch):
    one = content("user", 50, 9)
    write_all = disk.write_all

    def change_and_write(fd, data):
        one.block.rows[:] += 1
        write_all(fd, data)

    monkeypatch.setattr(disk, "write_all", change_and_write)
    with open_checkpoint(checkpoints.save(tmp_path, 1, [one])) as checkpoint:
        assert sum(len(block.keys) for block in checkpoint.blocks("user")) == 50


def test_who_stops_reading_leaves_no_file_open(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content("user", 50, 9)])
    with open_checkpoint(prefix) as checkpoint:
        before = os.listdir("/proc/self/fd")
        blocks = checkpoint.blocks("user", block_rows=5)
        next(blocks)
        blocks.close()
        assert os.listdir("/proc/self/fd") == before


def test_numpy_reads_it_as_rec_sdk_s(tmp_path):
    one = content("user", 30, 4)
    checkpoints.save(tmp_path, 0, [one])
    folder = tmp_path / "sparse-model.ckpt-0" / "user"
    keys = np.fromfile(str(folder / "key/slice.data"), np.int64)
    assert np.fromfile(str(folder / "key/slice.attribute"), np.int64).tolist() == [30, 8]
    shape = np.fromfile(str(folder / "embedding/slice.attribute"), np.int64)
    assert shape.tolist() == [30, 4, 4]
    rows = np.fromfile(str(folder / "embedding/slice.data"), np.float32).reshape(shape[:2])
    assert np.array_equal(keys, one.block.keys) and np.array_equal(rows, one.block.rows[:, :4])
    velocity = np.fromfile(str(folder / "LazyAdam_velocity/slice.data"), np.float32)
    assert np.array_equal(velocity, one.block.rows[:, 8])


@pytest.mark.parametrize("step, name", [(None, "model"), (0, "model-0"), (7, "model-7")])
def test_both_parts_have_the_same_suffix(tmp_path, step, name):
    checkpoints.save(tmp_path, step, [content()], base="model")
    dense = [name + suffix for suffix in (".data-00000-of-00001", ".index", ".meta")]
    assert sorted(os.listdir(str(tmp_path))) == sorted(dense + ["sparse-" + name])
    for file in dense:
        assert os.path.samefile(str(tmp_path / file), str(tmp_path / ("sparse-" + name) / "dense-part" / file))


RANKS = (1, 2, 3, 4, 8)


@pytest.mark.parametrize("saved_by", RANKS)
@pytest.mark.parametrize("loaded_by", RANKS)
def test_any_number_of_ranks_reads_what_any_number_saved(tmp_path, saved_by, loaded_by):
    """What each rank would hold of a table is saved one after the other, as their merged files are."""
    one = content("user", 300, 100, seed=saved_by)
    mine = [np.flatnonzero(key_rules.belongs(one.block.keys, rank, saved_by)) for rank in range(saved_by)]
    order = np.concatenate(mine)
    one.block = type(one.block)(*(values[order] for values in one.block))
    prefix = checkpoints.save(tmp_path, 1, [one])
    with open_checkpoint(prefix) as checkpoint:
        every, every_candidate = [], []
        for rank in range(loaded_by):
            blocks = list(checkpoint.blocks("user", rank, loaded_by, block_rows=17))
            others = list(checkpoint.candidates("user", rank, loaded_by))
            assert all(abs(key) % loaded_by == rank for block in blocks for key in block.keys.tolist())
            every, every_candidate = every + blocks, every_candidate + others
        assert checkpoints.by_key(every) == checkpoints.by_key([one.block])
        assert checkpoints.by_key(every_candidate) == checkpoints.by_key([one.candidates])


@given(st.lists(st.integers(-2 ** 63, 2 ** 63 - 1), max_size=50), st.integers(1, 9))
def test_a_key_belongs_to_its_owner_rank_and_no_other(keys, ranks):
    for rank in range(ranks):
        mine = key_rules.belongs(np.array(keys, np.int64), rank, ranks)
        assert mine.tolist() == [dealing.owner_of(key, ranks) == rank for key in keys]


@pytest.mark.parametrize("rank, ranks", [(0, 0), (1, 1), (-1, 2)])
def test_a_rank_that_is_not_there_is_an_error(tmp_path, rank, ranks):
    with open_checkpoint(checkpoints.save(tmp_path, 1, [content()])) as checkpoint:
        with pytest.raises(ValueError, match=r"rank {} is not in \[0, {}\)".format(rank, ranks)):
            list(checkpoint.blocks("user", rank, ranks))


@pytest.mark.parametrize("umask, directory, file", [(0, 0o750, 0o640), (0o077, 0o700, 0o600)])
def test_permissions_are_ours_and_less_where_the_umask_says_so(tmp_path, umask, directory, file):
    before = os.umask(umask)
    try:
        checkpoints.save(tmp_path / "new", 1, [content()])
    finally:
        os.umask(before)
    for folder, _, files in os.walk(str(tmp_path / "new")):
        assert stat.S_IMODE(os.stat(folder).st_mode) == directory
        for name in files:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == file


def test_progress_counts_up_to_what_is_needed(tmp_path):
    seen = []
    checkpoints.save(tmp_path, 1, [content()], progress=lambda written, needed: seen.append((written, needed)))
    written = [pair[0] for pair in seen]
    assert written == sorted(written) and written[-1] == seen[-1][1]
    assert len({pair[1] for pair in seen}) == 1


def test_a_checkpoint_that_is_not_there_is_an_error_that_names_its_path(tmp_path):
    with pytest.raises(NoCheckpointError, match="sparse-model.ckpt-5 does not exist") as caught:
        open_checkpoint(str(tmp_path / "model.ckpt-5"))
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        open_checkpoint(str(tmp_path / "nowhere" / "model.ckpt-5"))


def wrong(block, **changes):
    return block._replace(**changes)


@pytest.mark.parametrize("change, text", [
    (lambda one: wrong(one.block, keys=one.block.keys.astype(np.int32)), "keys are int32"),
    (lambda one: wrong(one.block, rows=one.block.rows[:, :3]), r"rows are float32\[20, 3\], expected float32\[20, 9\]"),
    (lambda one: wrong(one.block, rows=one.block.rows.astype(np.float64)), "rows are float64"),
    (lambda one: wrong(one.block, counts=one.block.counts[1:]), "counts are"),
    (lambda one: wrong(one.block, timestamps=-1 - one.block.timestamps), "below 0"),
    (lambda one: type(one.block)(*(values[:-1] for values in one.block)), "19 rows were written, but its spec has 20"),
    (lambda one: type(one.block)(*(np.concatenate([values, values]) for values in one.block)), "more rows than the 20"),
])
def test_what_is_not_as_the_spec_says_is_an_error_and_leaves_nothing(tmp_path, change, text):
    one = content()
    with pytest.raises(ValueError, match=text):
        with checkpoints.writing(tmp_path, "model", 1, [one.spec]) as writer:
            writer.write_table("user", [change(one)], [one.candidates])
    assert os.listdir(str(tmp_path)) == []


def test_a_table_is_written_once_and_every_table_is_written(tmp_path):
    one, other = content("user"), content("item")
    with checkpoints.writing(tmp_path, "model", 1, [one.spec, other.spec]) as writer:
        writer.write_table("user", [one.block], [one.candidates])
        with pytest.raises(ValueError, match="was written already"):
            writer.write_table("user", [one.block], [one.candidates])
        with pytest.raises(ValueError, match="'shop' is not a table of this save"):
            writer.write_table("shop", [one.block])
        with pytest.raises(ValueError, match="not yet written: table item"):
            writer.commit(checkpoints.position([one, other]))
    with pytest.raises(ValueError, match="inside `with`"):
        writer.write_table("item", [other.block])
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("change, text", [
    ({"name": "a/b"}, "name of a table"), ({"name": ".."}, "name of a table"), ({"name": "a" * 101}, "name of a table"),
    ({"dim": 0}, "dim: 0"), ({"rows": -1}, "rows: -1"), ({"rows": 2 ** 63}, "rows: "), ({"rows": True}, "rows: True"),
    ({"key_dtype": "float32"}, "key_dtype"), ({"initial": None}, "initial"), ({"policies": None}, "policies"),
])
def test_a_spec_that_makes_no_sense_is_an_error(tmp_path, change, text):
    with pytest.raises(ValueError, match=text):
        with checkpoints.writing(tmp_path, "model", 1, [content().spec._replace(**change)]):
            pass
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("name", ["key", "count", "initial_pool", "a/b", "..", ".a", "a b", "", "x" * 200, "a\n"])
def test_a_slot_name_that_is_taken_or_no_name_is_an_error(tmp_path, name):
    with pytest.raises(ValueError, match="optimizer slot"):
        with checkpoints.writing(tmp_path, "model", 1, [content(slots=(name,)).spec]):
            pass
    assert os.listdir(str(tmp_path)) == []


def test_two_tables_of_one_name_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="two tables"):
        with checkpoints.writing(tmp_path, "model", 1, [content().spec, content().spec]):
            pass
    assert os.listdir(str(tmp_path)) == []


def test_rows_of_keys_that_are_not_kept_are_not_read(tmp_path, monkeypatch):
    one = content(rows=20)
    prefix = checkpoints.save(tmp_path, 1, [one])
    wanted = one.block.keys[[7, 8]]
    read = []
    with open_checkpoint(prefix) as checkpoint:
        into = disk.read_into
        monkeypatch.setattr(disk, "read_into", lambda fd, offset, out: (read.append(out.nbytes), into(fd, offset, out)))
        (block,) = checkpoint.parted_blocks("user", block_rows=5, kept=lambda keys: np.isin(keys, wanted))
    assert block.keys.tolist() == wanted.tolist()
    np.testing.assert_array_equal(block.joined().rows, one.block.rows[[7, 8]])
    assert sum(read) == 8 * 20 + 5 * (4 * one.spec.row_floats + 2 * 8)
