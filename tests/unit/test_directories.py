"""A directory from which code is loaded: every folder on the way to it counts."""
import errno
import os

import pytest

from ascpipe import directories
from ascpipe.errors import DirectoryFullError, RunDirError

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


@pytest.fixture
def shared(tmp_path):
    """A folder that others may write to."""
    made = tmp_path / "shared"
    made.mkdir()
    made.chmod(0o777)
    return made


def test_what_is_missing_is_made_for_us_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        made = directories.make_safe_dir(str(tmp_path / "a" / "b" / "c"))
    finally:
        os.umask(before)
    assert made == str(tmp_path / "a" / "b" / "c")
    for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"):
        assert path.stat().st_mode & 0o7777 == 0o700
    assert directories.make_safe_dir(made) == made


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_on_the_way_that_others_may_write_to_is_refused_by_name_and_nothing_is_made_in_it(shared, mode):
    shared.chmod(mode)
    with pytest.raises(RunDirError, match=r"others may write to it \(mode {:o}\)".format(mode)) as caught:
        directories.make_safe_dir(str(shared / "mine" / "cache"))
    assert caught.value.path == str(shared)
    assert not list(shared.iterdir())


def test_a_folder_of_ours_in_one_that_others_may_write_to_is_refused_too(shared):
    (shared / "cache").mkdir(mode=0o700)
    with pytest.raises(RunDirError, match="others may write"):
        directories.make_safe_dir(str(shared / "cache"))


def test_a_sticky_folder_may_be_on_the_way_and_not_at_its_end(shared):
    shared.chmod(0o1777)
    assert directories.make_safe_dir(str(shared / "cache")) == str(shared / "cache")
    with pytest.raises(RunDirError, match="mode 1777"):
        directories.make_safe_dir(str(shared))


def test_links_are_followed_and_what_they_lead_through_counts(tmp_path, shared):
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert directories.make_safe_dir(str(tmp_path / "link")) == str(tmp_path / "target")
    (shared / "cache").mkdir(mode=0o700)
    (tmp_path / "to_shared").symlink_to(shared / "cache")
    with pytest.raises(RunDirError) as caught:
        directories.make_safe_dir(str(tmp_path / "to_shared"))
    assert caught.value.path == str(shared)


def test_a_file_in_the_place_of_a_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "file").write_text("precious")
    for path in (tmp_path / "file", tmp_path / "file" / "cache"):
        with pytest.raises(RunDirError, match="not a directory"):
            directories.make_safe_dir(str(path))
    assert (tmp_path / "file").read_text() == "precious"


@as_root
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777])
def test_a_folder_of_another_user_is_refused_wherever_it_stands(tmp_path, mode):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(mode)
    os.chown(str(tmp_path / "theirs"), NOBODY, NOBODY)
    for path in (tmp_path / "theirs", tmp_path / "theirs" / "cache"):
        with pytest.raises(RunDirError, match="belongs to uid {}, we are 0".format(NOBODY)):
            directories.make_safe_dir(str(path))


def test_what_is_full_is_an_error_of_its_own_with_what_is_free(tmp_path):
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(DirectoryFullError, match=r"E223.*MiB and \d+ of \d+ files are free there"):
            with directories.refusing(str(tmp_path / "not" / "there")):
                raise OSError(number, os.strerror(number))
    with pytest.raises(RunDirError, match="E214.*/elsewhere cannot be used: Read-only"):
        with directories.refusing(str(tmp_path)):
            raise OSError(errno.EROFS, "Read-only file system", "/elsewhere")
