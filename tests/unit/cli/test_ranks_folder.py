"""The folder of a run of ranks: there while the run lives, and removed by the next run if it was killed."""
import os
import signal
import tempfile
import time

import pytest

from ascpipe.cli import ranks_folder


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """Where folders of runs are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def make_old(path):
    os.utime(str(path), (time.time() - 1000, time.time() - 1000))


def killed_run():
    """The folder of a run that SIGKILL has ended."""
    pid = os.fork()
    if not pid:
        with ranks_folder.ranks_folder() as folder:
            open(os.path.join(folder, "rank-1.causes"), "w").close()
            make_old(folder)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_run_removes_its_folder(folders):
    with ranks_folder.ranks_folder() as folder:
        assert os.listdir(str(folders)) == [os.path.basename(folder)]
    assert os.listdir(str(folders)) == []


def test_the_next_run_removes_the_folder_of_a_killed_run(folders):
    killed_run()
    assert len(os.listdir(str(folders))) == 1
    with ranks_folder.ranks_folder() as folder:
        assert os.listdir(str(folders)) == [os.path.basename(folder)]


def test_the_folder_of_a_run_that_goes_on_stays(folders):
    with ranks_folder.ranks_folder() as folder:
        make_old(folder)
        assert ranks_folder.sweep() == []
        assert os.path.isdir(folder)


def test_what_no_run_made_or_a_young_run_may_have_made_stays(folders):
    (folders / "ascpipe-ranks-young").mkdir()
    (folders / "ascpipe-ranks-file").write_text("")
    (folders / "other").mkdir()
    (folders / "ascpipe-ranks-link").symlink_to(folders / "other")
    for name in ("ascpipe-ranks-file", "other"):
        make_old(folders / name)
    assert ranks_folder.sweep() == []
    assert len(os.listdir(str(folders))) == 4
