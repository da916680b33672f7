"""The log of evicted and deleted keys has complete lines only, and never stops the process that writes it."""
import errno
import fcntl
import multiprocessing
import os

import numpy as np
import pytest

from ascpipe import eviction_log
from ascpipe.config import load_settings
from ascpipe.control import trainer_link
from ascpipe.errors import ConfigError, EvictionLogError
from ascpipe.eviction_log import DELETED, EVICTED, EvictionLog, Loss, files_of, lines_of, newest, parsed

TICKET = (3 << 48) + 117
MIB = 1 << 20


def keys(*numbers, seen=7):
    found = np.array(numbers, np.int64)
    return [(found, np.full(len(found), seen, np.int64))]


def log(path, limit=MIB):
    told = []
    return EvictionLog(str(path), limit, told.append), told


def key_column(path):
    return [int(line.split(b"\t")[2]) for line in path.read_bytes().splitlines() if not line.startswith(b"#")]


def test_a_line_has_the_fields_of_the_key_and_can_be_parsed(monkeypatch):
    line = lines_of("user", TICKET, EVICTED, 1700000000.5, keys(-5)[0])
    assert line == b"2023-11-14T22:13:20Z\tuser\t-5\t3:117\t7\tevicted\n"
    assert parsed(line) == Loss("2023-11-14T22:13:20Z", "user", -5, "3:117", 7, "evicted")
    for wrong in (line[:-4], b"# 3 lines were lost\n", b"", b"a\tb\tc\td\te\tevicted\n"):
        assert parsed(wrong) is None


def test_keys_are_appended_and_the_newest_line_of_a_key_is_found(tmp_path):
    path = tmp_path / "log.tsv"
    writer, told = log(path)
    writer.write("user", TICKET, EVICTED, keys(*range(20000)))
    writer.write("item", TICKET + 1, DELETED, keys(5, seen=8))
    writer.write("user", TICKET + 2, DELETED, keys(5, 42, seen=9))
    assert key_column(path) == [*range(20000), 5, 5, 42] and path.stat().st_mode & 0o777 == 0o600
    found = newest(str(path), "user", [5, 42, 6, -1])
    assert {key: (loss.batch, loss.last_seen, loss.why) for key, loss in found.items()} == {
        5: ("3:119", 9, DELETED), 42: ("3:119", 9, DELETED), 6: ("3:117", 7, EVICTED)}
    assert (writer.lost, told) == (0, [])


def test_lines_are_found_in_blocks_of_any_size(tmp_path, monkeypatch):
    path = tmp_path / "log.tsv"
    log(path)[0].write("user", TICKET, EVICTED, keys(*range(30)))
    for size in (1, 7, 50, 51, 1000):
        monkeypatch.setattr(eviction_log, "_BLOCK_BYTES", size)
        assert sorted(newest(str(path), "user", range(-3, 33))) == list(range(30)), size


def test_a_file_at_its_limit_is_renamed_and_three_older_files_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(eviction_log, "_LINES", 10)
    path = tmp_path / "log.tsv"
    writer, told = log(path, limit=10 * len(lines_of("user", TICKET, EVICTED, 0.0, keys(100)[0])))
    writer.write("user", TICKET, EVICTED, keys(*range(100, 165)))
    assert sorted(os.listdir(str(tmp_path))) == ["log.tsv", "log.tsv.1", "log.tsv.2", "log.tsv.3"]
    assert [key_column(tmp_path / os.path.basename(name)) for name in files_of(str(path))] == [
        list(range(160, 165)), list(range(150, 160)), list(range(140, 150)), list(range(130, 140))]
    assert sorted(newest(str(path), "user", range(100, 165))) == list(range(130, 165))
    assert (writer.lost, told) == (0, [])


class FullDisk:
    """Replacement of ``os.write`` for a disk with little free space."""

    def __init__(self, free):
        self.free = free

    def __call__(self, fd, text):
        if not self.free:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = _write(fd, text[:self.free])
        self.free -= written
        return written


_write = os.write


@pytest.mark.parametrize("free", [0, 10, 45, 46, 47, 100])
def test_a_full_disk_loses_lines_which_are_counted_and_said_once(tmp_path, monkeypatch, free):
    path = tmp_path / "log.tsv"
    writer, told = log(path)
    writer.write("user", TICKET, EVICTED, keys(1))
    length = path.stat().st_size
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", FullDisk(free))
        for _ in range(3):
            writer.write("user", TICKET, EVICTED, keys(2, 3, 4))
    complete = free // length
    assert writer.lost == 9 - complete
    assert key_column(path) == [1, *range(2, 2 + complete)]
    assert told == ["E228: The eviction log {} cannot be written: No space left on device. Lines are lost; the file "
                    "has their number when it can be written again. Training continues. Free space, or choose another "
                    "file (eviction_log)".format(path)]
    writer.write("user", TICKET, EVICTED, keys(5))
    writer.write("user", TICKET, EVICTED, keys(6))
    assert path.read_bytes().splitlines()[1 + complete] == b"# %d lines were lost" % (9 - complete)
    assert told[1:] == ["{} can be written again. {} lines were lost, and the file has a line with this number".format(
        path, 9 - complete)]
    assert key_column(path)[-2:] == [5, 6] and path.read_bytes().count(b"#") == 1


def test_a_file_that_another_process_has_locked_does_not_stop_the_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(eviction_log, "_PAUSE_S", 0)
    path = tmp_path / "log.tsv"
    writer, told = log(path)
    with open(str(path), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer.write("user", TICKET, EVICTED, keys(1))
    assert writer.lost == 1 and "another process has locked the file" in told[0]
    writer.write("user", TICKET, EVICTED, keys(2))
    assert path.read_bytes().startswith(b"# 1 lines were lost\n")


def test_after_the_first_failure_of_a_call_no_more_lines_are_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(eviction_log, "_LINES", 10)
    tried = []
    monkeypatch.setattr(eviction_log, "_append", lambda *given: tried.append(given) or 0)
    writer, told = log(tmp_path / "log.tsv")
    writer.write("user", TICKET, EVICTED, keys(*range(35)) + keys(1, 2))
    assert (writer.lost, len(tried), len(told)) == (37, 1, 1)


def test_a_line_that_a_killed_process_has_not_completed_is_ignored(tmp_path):
    path = tmp_path / "log.tsv"
    line = lines_of("user", TICKET, EVICTED, 0.0, keys(11)[0])
    path.write_bytes(line + line[:30])
    log(path)[0].write("user", TICKET, EVICTED, keys(12))
    assert [parsed(one + b"\n") and parsed(one + b"\n").key for one in path.read_bytes().splitlines()] == [11, None, 12]
    assert sorted(newest(str(path), "user", [1, 11, 12])) == [11, 12]


def write_many(path, first):
    writer = EvictionLog(path, 20000, print)
    for number in range(first, first + 200):
        writer.write("user", TICKET, EVICTED, keys(number))
    assert writer.lost == 0


def test_processes_that_write_at_the_same_time_lose_nothing_while_the_file_is_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(eviction_log, "OLD_FILES", 20)
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_many, args=(str(tmp_path / "log"), first)) for first in (0, 1000, 2000)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    found = sorted(key for path in tmp_path.iterdir() for key in key_column(path))
    assert found == [first + number for first in (0, 1000, 2000) for number in range(200)]
    assert len(list(tmp_path.iterdir())) > 1


def test_a_path_that_cannot_be_written_is_refused_before_anything_starts(tmp_path):
    eviction_log.require_writable(str(tmp_path / "log"))
    os.mkfifo(str(tmp_path / "fifo"))
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "no" / "log", "No such file"),
                         (tmp_path / "fifo", "it is not a regular file")):
        with pytest.raises(EvictionLogError, match="E228: .*{}.*Nothing was started".format(reason)):
            eviction_log.require_writable(str(path))
    assert newest(str(tmp_path / "fifo"), "user", [1]) == {}


def test_each_rank_has_a_file():
    assert eviction_log.path_of_rank("/a.b/evicted.tsv", 3) == "/a.b/evicted-3.tsv"
    assert eviction_log.path_of_rank("/a.b/evicted", 0) == "/a.b/evicted-0"


def test_the_newest_line_of_a_key_is_found_in_the_files_of_all_ranks(tmp_path, monkeypatch):
    for moment, name in enumerate(["lost-1.tsv", "lost.tsv", "lost-2.tsv", "lost-x.tsv", "other-2.tsv"]):
        monkeypatch.setattr(eviction_log.time, "time", lambda now=moment: 100.0 + now)
        log(tmp_path / name)[0].write("user", TICKET, EVICTED, keys(moment, 9))
    for path in ("lost.tsv", "lost-0.tsv", "lost-1.tsv"):
        found = newest(str(tmp_path / path), "user", [0, 1, 2, 3, 4, 9])
        assert {key: loss.time[-3:] for key, loss in found.items()} == {0: "40Z", 1: "41Z", 2: "42Z", 9: "42Z"}
    assert set(newest(str(tmp_path / "no" / "lost.tsv"), "user", [1])) == set()


def test_the_private_daemon_of_a_rank_writes_the_file_of_the_rank(monkeypatch):
    monkeypatch.setattr(trainer_link.launch, "Launching", lambda name, private, options: options)
    settings = load_settings({"eviction_log": "/x/lost.tsv"})
    assert trainer_link._launch(settings) == {}
    for name, value in (("RANK", 2), ("SIZE", 3), ("LOCAL_RANK", 0), ("LOCAL_SIZE", 1)):
        monkeypatch.setenv("OMPI_COMM_WORLD_" + name, str(value))
    assert trainer_link._launch(settings) == {"eviction_log": "/x/lost-2.tsv"}


@pytest.mark.parametrize("path", ["lost.tsv", "/tmp/"])
def test_a_path_that_is_not_absolute_or_a_folder_is_refused(path):
    with pytest.raises(ConfigError, match="eviction_log.*absolute path of a file"):
        load_settings({"eviction_log": path})
