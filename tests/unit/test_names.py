"""Names of a daemon's files, and the directories that we refuse."""
import os

import pytest

from ascpipe import names
from ascpipe.daemon import worker_identity
from ascpipe.errors import EndpointTooLongError, NameRefusedError, RunDirError


@pytest.mark.parametrize("name", [
    "", ".", "..", ".a", "-a", "a/b", "../x", "/etc/x", "a b", "a\n", "a\x00", "x" * 49, "\u0430", None, 3])
def test_what_is_no_plain_file_name_is_refused(name):
    with pytest.raises(NameRefusedError, match="E215"):
        names.run_dir(name)


def test_the_files_lie_in_the_runtime_directory(run_home):
    found = names.run_dir("a-1")
    assert found.path == "{}/ascpipe/a-1".format(run_home)
    assert found.control == "{}/ascpipe/a-1/control.sock".format(run_home)


@pytest.mark.parametrize("value", ["", "relative/path", "/run/user/none"])
def test_without_a_runtime_directory_they_lie_in_tmp_under_our_uid(monkeypatch, value):
    monkeypatch.setenv("XDG_RUNTIME_DIR", value)
    assert names.run_dir("a").path == "/tmp/ascpipe-{}/a".format(os.geteuid())


def test_a_socket_path_may_have_107_bytes_and_no_more(monkeypatch):
    monkeypatch.setattr(os.path, "isdir", lambda path: True)
    rest = len("/ascpipe/a/lifeline.sock")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * (names.ENDPOINT_BYTES - rest - 1))
    names.run_dir("a")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * (names.ENDPOINT_BYTES - rest))
    with pytest.raises(EndpointTooLongError, match="108 bytes; the limit is 107"):
        names.run_dir("a")


def test_which_daemon_is_meant(monkeypatch):
    assert names.daemon_name() == "default"
    monkeypatch.setenv("ASCPIPE_NAME", "other")
    assert names.daemon_name() == "other"
    assert names.daemon_name("mine") == "mine"


def test_private_names_differ_and_are_recognised():
    first, second = names.private_name(12), names.private_name(12)
    assert first != second
    assert names.is_private_name(first)
    assert names.run_dir(first).name == first
    assert not names.is_private_name("default")


def test_a_new_directory_is_ours_alone_whatever_the_umask(tmp_path):
    old = os.umask(0)
    try:
        names.make_private_dir(str(tmp_path / "new"))
    finally:
        os.umask(old)
    assert os.stat(str(tmp_path / "new")).st_mode & 0o777 == 0o700
    names.make_private_dir(str(tmp_path / "new"))


def test_a_link_a_file_and_an_open_directory_are_refused_and_left_alone(tmp_path):
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "file").write_text("precious")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o750)
    for name, reason in [("link", "symbolic link"), ("file", "not a directory"), ("open", "mode 750")]:
        with pytest.raises(RunDirError, match=reason) as caught:
            names.make_private_dir(str(tmp_path / name))
        assert caught.value.path == str(tmp_path / name)
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path):
    (tmp_path / "squatted").mkdir(mode=0o700)
    os.chown(str(tmp_path / "squatted"), 65534, 65534)
    with pytest.raises(RunDirError, match="belongs to uid 65534"):
        names.make_private_dir(str(tmp_path / "squatted"))


@pytest.mark.parametrize("kind", [worker_identity.KEY, worker_identity.TABLE, worker_identity.DISK])
def test_files_of_each_kind_of_worker_are_of_our_making(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    worker = str(worker_identity.Worker(kind, 3))
    found = names.RunDir("a")
    (tmp_path / "ascpipe" / "a").mkdir(parents=True)
    for path in (found.worker_log(worker), found.worker_spans(worker)):
        open(path, "w").close()
    assert found.files() == [worker + ".log", worker + ".spans"]
    assert found.span_files() == [worker + ".spans"]


def test_only_files_of_our_making_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = names.RunDir("a")
    folder = tmp_path / "ascpipe" / "a"
    folder.mkdir(parents=True)
    for name in ["lock", "owner.json", "daemon.log", "key-0.log", "table-12.log", "key-0.spans", "notes.txt",
                 "key-x.log", "exchanges.spans"]:
        (folder / name).write_text("")
    assert found.files() == ["daemon.log", "exchanges.spans", "key-0.log", "key-0.spans", "lock", "owner.json",
                             "table-12.log"]
    assert found.span_files() == ["key-0.spans"]
