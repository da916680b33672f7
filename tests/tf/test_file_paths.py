"""What programs check their own paths with: the rules for checkpoints of the incumbent."""
import os

import pytest

from mx_rec.saver.patch import validate_save_path
from mx_rec.saver.saver import validate_read_file

CHECKS = (validate_read_file, validate_save_path)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "census.data"
    path.write_text("1,2\n")
    return path


@pytest.mark.parametrize("check", CHECKS)
def test_a_file_of_the_program_is_accepted_by_any_of_its_paths(check, file, monkeypatch):
    monkeypatch.chdir(file.parent)
    for path in (str(file), "census.data", "./census.data", os.path.join(str(file.parent), "..", file.parent.name,
                                                                         "census.data"), "hdfs://host/census.data",
                 "viewfs://host/census.data"):
        assert check(path) is None


def test_what_is_written_need_not_be_there(tmp_path):
    validate_save_path(str(tmp_path / "new" / "model"))
    validate_save_path(str(tmp_path) + "/")
    validate_save_path("/dev/shm/model")
    for path, said in ((tmp_path / "new", "there is no such file"), (tmp_path, "it is not a regular file")):
        with pytest.raises(ValueError, match=said):
            validate_read_file(str(path))


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("path, said", [
    ("census\n.data", "control characters"), ("census\x1b[31m.data", "control characters"),
    ("s3://bucket/census.data", "E273: .*its scheme is 's3', expected none, or 'hdfs' or 'viewfs'"),
    ("file:///tmp/census.data", "scheme"), ("hdfs://host/census\t", "control characters"),
    ("/etc/passwd", "directory of the system"), ("/usr/lib/census", "directory of the system"),
    ("../../../../../../../../../../../../etc/passwd", "directory of the system"), ("/", "directory of the system"),
    ("", "length is less than 1"), ("a" * 1025, "length is bigger than 1024"), (None, "is not str"), (b"x", "is not")])
@pytest.mark.each_value
def test_a_path_that_is_refused_is_a_value_error(check, path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        check(path)


@pytest.mark.parametrize("check", CHECKS)
def test_a_link_is_refused_and_what_lies_in_a_linked_directory_is_not(check, file):
    (file.parent / "link").symlink_to(file)
    (file.parent / "folder").symlink_to(file.parent)
    (file.parent / "out").symlink_to("/etc")
    for link in ("link", "folder/", "folder/link"):
        with pytest.raises(ValueError, match="symbolic link"):
            check(str(file.parent) + "/" + link)
    check(str(file.parent / "folder" / "census.data"))
    with pytest.raises(ValueError, match="/etc/passwd is in a directory of the system"):
        check(str(file.parent / "out" / "passwd"))
