"""Which paths are refused; that no link is followed and nothing of others is removed."""
import fcntl
import os

import numpy as np
import pytest

from ascpipe.checkpoint import staging
from ascpipe.checkpoint.errors import (
    CheckpointPathError,
    DamagedCheckpointError,
    NoCheckpointError,
    NotRemovedError,
    NotSavedError,
    UnverifiedCheckpointError,
)
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints, deltas_of, remove_checkpoint
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.cli.checkpoint import _list_row
from ascpipe.cli.found_checkpoints import look_at_all, verdicts
from tests.support import checkpoints
from tests.support.checkpoints import content

REFUSED = ["", "a\nb/m", "a\0b", "\x1b[31m/m", "hdfs://host/m", "viewfs://host/m", "file:///tmp/m",
           "s3://b/m", "/etc/m", "/m", "/usr/lib/m", "/proc/self/m", "/dev/m", "dir/.hidden", "a/" + "m" * 300,
           "m" * 2000, "dir/..", "../" * 40 + "etc/m", "\ud800/m", None, 7]


@pytest.mark.parametrize("prefix", REFUSED, ids=repr)
def test_a_path_that_is_refused_is_a_value_error_and_nothing_is_touched(tmp_path, prefix):
    os.chdir(str(tmp_path))
    for use in (open_checkpoint, remove_checkpoint):
        with pytest.raises(CheckpointPathError) as caught:
            use(prefix)
        assert isinstance(caught.value, ValueError)
        assert "\x1b" not in str(caught.value) and "\n" not in str(caught.value)
    if isinstance(prefix, str):
        directory, base = os.path.split(prefix)
        with pytest.raises(CheckpointPathError):
            CheckpointWriter(directory, base, 1)
    assert os.listdir(str(tmp_path)) == []


def test_a_path_may_go_up(tmp_path):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    os.chdir(str(tmp_path / "here"))
    prefix = checkpoints.save("../there", 1, [content()])
    assert prefix == "../there/model.ckpt-1"
    for found in (prefix, "../here/../there/model.ckpt-1", str(tmp_path / "there" / "model.ckpt-1")):
        with open_checkpoint(found) as checkpoint:
            checkpoints.assert_holds(checkpoint, [content()])
    assert [found.prefix for found in complete_checkpoints("../there")] == [prefix]
    remove_checkpoint(prefix)
    assert os.listdir(str(tmp_path / "there")) == []


def test_a_base_with_a_slash_is_refused(tmp_path):
    with pytest.raises(CheckpointPathError, match="is not a path"):
        CheckpointWriter(str(tmp_path), "a/b", 1)


@pytest.mark.parametrize("step, stem", [(None, ""), (7, "-7")])
def test_a_checkpoint_may_have_no_base_name(tmp_path, step, stem):
    prefix = checkpoints.save(tmp_path, step, [content()], base="")
    assert prefix == "{}/{}".format(tmp_path, stem)
    assert sorted(name for name in os.listdir(str(tmp_path)) if stem + "." in name) == [
        stem + suffix for suffix in (".data-00000-of-00001", ".index", ".meta")]
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, [content()])
        assert os.path.exists(checkpoint.dense_prefix + ".index")
    other = checkpoints.save(tmp_path, 8, [content()], base="", parent=prefix)
    assert [found.prefix for found in complete_checkpoints(str(tmp_path))] == [prefix, other]
    assert deltas_of(str(tmp_path), "") == [other]
    assert [row[0] for row in map(_list_row, look_at_all(str(tmp_path)))] == [stem or "-", "-8"]
    assert [verdict.problem for verdict in verdicts(str(tmp_path))] == [None, None]
    remove_checkpoint(other)
    remove_checkpoint(prefix)
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize("step", [-1, True, 2 ** 63])
def test_a_step_below_0_is_refused(tmp_path, step):
    with pytest.raises(ValueError, match="E260: Step {} of a checkpoint is not in".format(step)):
        CheckpointWriter(str(tmp_path), "m", step)


def test_a_directory_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    prefix = checkpoints.save(tmp_path / "real", 1, [content()])
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = str(tmp_path / "link" / os.path.basename(prefix))
    before = checkpoints.tree_of(tmp_path)
    for use in (open_checkpoint, remove_checkpoint):
        with pytest.raises(CheckpointPathError, match="a symbolic link, which is never followed"):
            use(linked)
    with pytest.raises(CheckpointPathError, match="a symbolic link, which is never followed"):
        checkpoints.save(tmp_path / "link", 2, [content()])
    (tmp_path / "etc").symlink_to("/etc")
    with pytest.raises(CheckpointPathError, match="directory of the system"):
        open_checkpoint(str(tmp_path / "etc" / "m"))
    (tmp_path / "etc").unlink()
    assert checkpoints.tree_of(tmp_path) == before


def test_a_checkpoint_that_is_a_link_is_neither_read_nor_replaced_nor_removed(tmp_path):
    real = checkpoints.save(tmp_path / "real", 1, [content()])
    (tmp_path / "sparse-model.ckpt-1").symlink_to(tmp_path / "real" / "sparse-model.ckpt-1")
    before = checkpoints.tree_of(tmp_path)
    for use in (open_checkpoint, remove_checkpoint):
        with pytest.raises(CheckpointPathError, match="a symbolic link"):
            use(str(tmp_path / "model.ckpt-1"))
    with pytest.raises(NotSavedError, match="sparse-model.ckpt-1 already exists"):
        checkpoints.save(tmp_path, 1, [content()])
    assert complete_checkpoints(str(tmp_path)) == []
    assert checkpoints.tree_of(tmp_path) == before
    open_checkpoint(real).close()


@pytest.mark.parametrize("name", ["user", "user/key", "user/key/slice.data", "user/key/slice.attribute", "dense-part",
                                  "dense-part/model.ckpt-1.index", "PAIR.json", "MANIFEST.json"])
def test_a_link_inside_a_checkpoint_is_not_followed(tmp_path, name):
    prefix = checkpoints.save(tmp_path, 1, [content()])
    path = tmp_path / "sparse-model.ckpt-1" / name
    path.rename(tmp_path / "aside")
    path.symlink_to(tmp_path / "aside")
    with pytest.raises(DamagedCheckpointError, match="link"):
        open_checkpoint(prefix)


def test_a_file_that_becomes_a_link_between_check_and_use_is_not_followed(tmp_path):
    with open_checkpoint(checkpoints.save(tmp_path, 1, [content()])) as checkpoint:
        path = tmp_path / "sparse-model.ckpt-1/user/embedding"
        path.rename(tmp_path / "aside")
        path.symlink_to(tmp_path / "aside")
        with pytest.raises(DamagedCheckpointError, match="link"):
            list(checkpoint.blocks("user"))


def test_a_fifo_in_place_of_a_file_is_an_error_at_once(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content()])
    path = str(tmp_path / "sparse-model.ckpt-1/user/key/slice.data")
    os.unlink(path)
    os.mkfifo(path)
    with pytest.raises(DamagedCheckpointError, match="not a regular file"):
        open_checkpoint(prefix)


def test_links_in_a_checkpoint_that_is_removed_go_and_what_they_lead_to_stays(tmp_path):
    prefix = checkpoints.save(tmp_path / "saved", 1, [content()])
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (tmp_path / "saved/sparse-model.ckpt-1/user/out").symlink_to(tmp_path / "precious")
    (tmp_path / "saved/sparse-model.ckpt-1/up").symlink_to("/")
    remove_checkpoint(prefix)
    assert checkpoints.tree_of(tmp_path) == {"precious/file": b"mine"}
    with pytest.raises(NoCheckpointError):
        remove_checkpoint(prefix)


def test_only_checkpoints_of_ours_are_removed_or_replaced(tmp_path):
    theirs = tmp_path / "sparse-model.ckpt-1" / "user"
    theirs.mkdir(parents=True)
    (theirs / "file").write_text("theirs")
    before = checkpoints.tree_of(tmp_path)
    with pytest.raises(NotRemovedError, match="only checkpoints of ascpipe are removed"):
        remove_checkpoint(str(tmp_path / "model.ckpt-1"))
    with pytest.raises(NotSavedError, match="already exists and was not created by ascpipe"):
        checkpoints.save(tmp_path, 1, [content()])
    assert checkpoints.tree_of(tmp_path) == before


def test_dense_files_of_others_stay_when_a_checkpoint_is_removed(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content()])
    (tmp_path / "model.ckpt-1.index").unlink()
    (tmp_path / "model.ckpt-1.index").write_text("of another program")
    remove_checkpoint(prefix)
    assert checkpoints.tree_of(tmp_path) == {"model.ckpt-1.index": b"of another program"}


def test_a_save_removes_what_dead_saves_left_and_nothing_else(tmp_path):
    dead = tmp_path / (staging.PREFIX + "dead")
    live = tmp_path / (staging.PREFIX + "live")
    for folder in (dead, live):
        (folder / "user").mkdir(parents=True)
        (folder / "ASCPIPE").write_text("")
    (tmp_path / (staging.PREFIX + "empty")).mkdir()
    foreign = [tmp_path / ".tmp-theirs", tmp_path / (staging.PREFIX + "unmarked")]
    for folder in foreign:
        folder.mkdir()
        (folder / "file").write_text("theirs")
    link = tmp_path / (staging.PREFIX + "link")
    link.symlink_to(foreign[0])
    with open(str(live / "ASCPIPE"), "r+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        checkpoints.save(tmp_path, 1, [content()])
    hidden = sorted(name for name in os.listdir(str(tmp_path)) if name.startswith("."))
    assert hidden == sorted(path.name for path in [live, link, *foreign])
    assert (foreign[0] / "file").read_text() == "theirs"


def test_two_saves_at_once_do_not_disturb_each_other(tmp_path):
    one = content()
    with checkpoints.writing(tmp_path, "model.ckpt", 1, [one.spec]) as writer:
        writer.write_table("user", [one.block], [one.candidates])
        checkpoints.save(tmp_path, 2, [one])
        checkpoints.write_dense(writer, "dense")
        writer.commit(checkpoints.position([one]))
    assert [found.step for found in complete_checkpoints(str(tmp_path))] == [1, 2]


def test_checkpoints_are_ordered_by_the_step_of_their_manifest(tmp_path):
    for step in (10, None, 100):
        checkpoints.save(tmp_path, step, [content()])
    checkpoints.save(tmp_path, 9, [content()], base="zero-500")
    found = complete_checkpoints(str(tmp_path))
    assert [(os.path.basename(one.prefix), one.step) for one in found] == [
        ("model.ckpt", None), ("zero-500-9", 9), ("model.ckpt-10", 10), ("model.ckpt-100", 100)]
    open_checkpoint(found[1].prefix).close()
    assert complete_checkpoints(str(tmp_path / "nowhere")) == []


def test_too_little_space_is_an_error_with_numbers_before_anything_is_written(tmp_path):
    checkpoints.save(tmp_path, 1, [content()])
    spec = content().spec._replace(rows=1 << 40)
    text = r"the disk has \d+ bytes left \(wrote 0 of \d+ bytes.*model.ckpt-1 is intact"
    with pytest.raises(NotSavedError, match=text):
        with checkpoints.writing(tmp_path, "model.ckpt", 2, [spec]):
            pass
    assert not [name for name in os.listdir(str(tmp_path)) if name.startswith(".")]


def test_a_dense_part_that_was_not_written_or_has_a_foreign_file_is_an_error(tmp_path):
    one = content()
    for name, text in ((None, "TensorFlow's part was not written"),
                       ("core", r"not a file of a TensorFlow checkpoint \(core\)")):
        with pytest.raises(NotSavedError, match=text):
            with checkpoints.writing(tmp_path, "m", 1, [one.spec]) as writer:
                writer.write_table("user", [one.block], [one.candidates])
                if name:
                    checkpoints.write_dense(writer, "dense")
                    with open(os.path.join(os.path.dirname(writer.dense_prefix), name), "w"):
                        pass
                writer.commit(checkpoints.position([one]))
        assert os.listdir(str(tmp_path)) == []


def foreign_checkpoint(folder, one):
    """What Rec SDK writes: arrays, and nothing beside them."""
    checkpoints.save(folder, 5, [one])
    sparse = folder / "sparse-model.ckpt-5"
    for name in ("ASCPIPE", "MANIFEST.json", "PAIR.json", "dense-part"):
        os.rename(str(sparse / name), str(folder / (".aside-" + name)))
    for name in ("count", "timestamp", "candidate_key", "candidate_count", "candidate_timestamp"):
        os.rename(str(sparse / "user" / name), str(folder / (".aside-" + name)))
    return str(folder / "model.ckpt-5"), sparse / "user"


@pytest.mark.parametrize("allow", ["argument", "environment"])
def test_a_checkpoint_without_our_manifest_is_read_only_if_allowed_and_with_a_warning(tmp_path, caplog, allow):
    one = content("user", 30, 0)
    prefix, _ = foreign_checkpoint(tmp_path, one)
    with pytest.raises(UnverifiedCheckpointError, match="ASCPIPE_ALLOW_UNVERIFIED=1"):
        open_checkpoint(prefix)
    if allow == "environment":
        os.environ["ASCPIPE_ALLOW_UNVERIFIED"] = "1"
    with open_checkpoint(prefix, allow_unverified=allow == "argument") as checkpoint:
        assert (checkpoint.step, checkpoint.verified, checkpoint.position) == (5, False, None)
        assert checkpoint.dense_prefix == prefix
        spec = checkpoint.tables["user"]
        assert [(slot.name, slot.width) for slot in spec.slots] == [("LazyAdam_momentum", 4), ("LazyAdam_velocity", 1)]
        (block,) = checkpoint.blocks("user")
        assert np.array_equal(block.keys, one.block.keys) and np.array_equal(block.rows, one.block.rows)
        assert not block.counts.any() and not block.timestamps.any()
        assert list(checkpoint.candidates("user")) == []
    assert "no manifest of ascpipe" in caplog.text


def attribute(*values):
    return np.array(values, np.int64).tobytes()


@pytest.mark.parametrize("name, data", [
    ("key/slice.attribute", attribute(2 ** 63 - 1, 8)), ("key/slice.attribute", attribute(-1, 8)),
    ("key/slice.attribute", attribute(29, 8)), ("key/slice.attribute", b""), ("key/slice.data", b""),
    ("key/slice.data", attribute(*[7] * 30)), ("embedding/slice.attribute", attribute(30, -4, 4)),
    ("embedding/slice.attribute", attribute(30, 2 ** 62, 4)), ("embedding/slice.attribute", attribute(30, 5, 4)),
    ("embedding/slice.data", b"x" * 479), ("LazyAdam_momentum/slice.data", b"x" * 479)])
def test_sizes_and_keys_are_checked_even_there(tmp_path, name, data):
    prefix, table = foreign_checkpoint(tmp_path, content("user", 30, 0))
    (table / name).write_bytes(data)
    with pytest.raises(DamagedCheckpointError):
        open_checkpoint(prefix, allow_unverified=True)


@pytest.mark.parametrize("ranks, parts", [(1, "slice_0.data"), (2, "slice_0.data and 1 more part"),
                                          (12, "slice_0.data and 11 more parts")])
def test_parts_of_ranks_that_rec_sdk_did_not_merge_are_an_unfinished_save(tmp_path, ranks, parts):
    prefix, table = foreign_checkpoint(tmp_path, content("user", 30, 0))
    for path in sorted(table.glob("*/slice.*")):
        for rank in range(ranks):
            (path.parent / "slice_{}{}".format(rank, path.suffix)).write_bytes(path.read_bytes())
        path.unlink()
    with pytest.raises(DamagedCheckpointError) as caught:
        open_checkpoint(prefix, allow_unverified=True)
    assert caught.value.code == "E534"
    assert str(caught.value) == (
        "E534: Checkpoint {} is incomplete: sparse-model.ckpt-5/user/LazyAdam_momentum: it has {} and no slice.data. "
        "Rec SDK writes one part for each rank and merges the parts at the end of a save, so this save did not finish. "
        "Nothing was changed, and nothing of it is used. Restore another checkpoint").format(prefix, parts)


def test_parts_of_ranks_beside_the_merged_file_are_not_read(tmp_path):
    one = content("user", 30, 0)
    prefix, table = foreign_checkpoint(tmp_path, one)
    (table / "key" / "slice_1.data").write_bytes(b"x")
    with open_checkpoint(prefix, allow_unverified=True) as checkpoint:
        (block,) = checkpoint.blocks("user")
    assert np.array_equal(block.keys, one.block.keys)
