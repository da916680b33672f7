"""A save that is cut at any system call leaves the checkpoint before it or the new one, never a mix."""
import errno
import os

import pytest

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import CheckpointError, NoCheckpointError, NotPublishedError, NotSavedError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.retention import complete_checkpoints, remove_checkpoint
from tests.support import checkpoints, disk_faults
from tests.support.checkpoints import content

BEFORE = [content("user", 9, 3, seed=1, slots=("Adagrad_accumulator",))]
AFTER = [content("user", 11, 2, seed=3, slots=("Adagrad_accumulator",))]


def no_exchange(*_):
    raise OSError(errno.EINVAL, "this file system cannot")


def no_link(*_, **__):
    raise OSError(errno.EPERM, "this file system has no links")


@pytest.fixture(params=["all", *(pytest.param(lack, marks=pytest.mark.long) for lack in ("no exchange", "no links"))])
def file_system(request, monkeypatch):
    """What the file system can do."""
    if request.param == "no exchange":
        monkeypatch.setattr(disk.syscalls, "exchange_names", no_exchange)
    if request.param == "no links":
        monkeypatch.setattr(os, "link", no_link)
    return request.param


def cut(monkeypatch, do, at, fault):
    """Do something with a fault; whether it got to its end, and the calls that it made."""
    faulty = disk_faults.FaultyDisk(at, fault)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "os", faulty)
        disk_faults.sync_by(faulty.fsync, patch)
        try:
            do()
        except (disk_faults.KilledError, CheckpointError) as error:
            return error, faulty.calls
    return None, faulty.calls


def found(prefix):
    """Which of the two a prefix is, dense part included."""
    with open_checkpoint(prefix) as checkpoint:
        before = checkpoint.tables["user"] == BEFORE[0].spec
        checkpoints.assert_holds(checkpoint, BEFORE if before else AFTER)
        with open(checkpoint.dense_prefix + ".index") as file:
            assert file.read() == ("before" if before else "after") + ".index"
        return "before" if before else "after"


def remains(folder):
    return [name for name in os.listdir(str(folder)) if name.startswith(".")]


def assert_whole(folder, step, error):
    """After a cut save over step 1 or beside it: what restores is one of the two, and what must be gone is gone."""
    kept = found(str(folder / "model.ckpt-1"))
    assert kept == "before" or step == 1
    steps = [one.step for one in complete_checkpoints(str(folder))]
    assert steps in ([1], [1, step])
    if isinstance(error, NotSavedError):
        assert (kept, steps, remains(folder)) == ("before", [1], [])
        assert "model.ckpt-1 is intact" in str(error)
    elif isinstance(error, NotPublishedError) or error is None:
        assert (kept == "after") if step == 1 else (steps == [1, step])
    # The next save clears what a kill left, and succeeds.
    checkpoints.save(folder, 3, AFTER, dense="after")
    assert found(str(folder / "model.ckpt-1")) == kept
    assert found(str(folder / "model.ckpt-3")) == "after"
    assert remains(folder) == []


def saving(folder, step):
    return lambda: checkpoints.save(folder, step, AFTER, dense="after")


def calls_of_a_save(tmp_path, monkeypatch, step):
    folder = tmp_path / "counted"
    checkpoints.save(folder, 1, BEFORE, dense="before")
    error, calls = cut(monkeypatch, saving(folder, step), 0, None)
    assert error is None
    return len(calls)


@pytest.mark.parametrize("stride", [2, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", disk_faults.FAULTS)
@pytest.mark.parametrize("step", [1, 2], ids=["same step", "next step"])
@pytest.mark.timeout_s(120)
def test_a_save_cut_at_any_call_leaves_the_one_before_or_the_new_one(
        tmp_path, monkeypatch, file_system, step, fault, stride):
    calls = calls_of_a_save(tmp_path, monkeypatch, step)
    assert calls > 100
    last = 35 if fault == disk_faults.KILL else 6  # around the commit and after it: both steps together have every one
    for at in sorted({*range(1, calls - last, 61 * stride), *range(calls - last + step % stride, calls + 1, stride)}):
        folder = tmp_path / "cut-{}".format(at)
        checkpoints.save(folder, 1, BEFORE, dense="before")
        error, _ = cut(monkeypatch, saving(folder, step), at, fault)
        assert_whole(folder, step, error)
        if fault == disk_faults.SHORT:
            assert error is None
        for name in os.listdir(str(folder)):
            if name.startswith("sparse-"):
                remove_checkpoint(str(folder / name[len("sparse-"):]))
        if file_system != "no links":  # where copies of a replaced checkpoint may stay
            assert os.listdir(str(folder)) == []


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", [disk_faults.KILL, errno.EIO])
def test_a_removal_cut_at_any_call_leaves_all_or_nothing(tmp_path, monkeypatch, fault, stride):
    def removal(folder):
        return lambda: remove_checkpoint(str(folder / "model.ckpt-1"))

    checkpoints.save(tmp_path / "counted", 1, BEFORE)
    _, calls = cut(monkeypatch, removal(tmp_path / "counted"), 0, None)
    for at in range(1, len(calls) + 1, stride):
        folder = tmp_path / str(at)
        checkpoints.save(folder, 1, BEFORE, dense="before")
        cut(monkeypatch, removal(folder), at, fault)
        try:
            assert found(str(folder / "model.ckpt-1")) == "before"
        except NoCheckpointError:
            assert complete_checkpoints(str(folder)) == []
        checkpoints.save(folder, 2, AFTER, dense="after")
        assert remains(folder) == []
