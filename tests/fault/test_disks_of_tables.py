"""Training whose rows lie on a disk that is slow, goes, fails or is full: the same results, or an error that says what
and where, and nothing that was saved is lost."""
import json
import os
import re

import pytest

from tests.fault.test_row_files import PATH, skip_without
from tests.support import forked_calls, tree
from tests.support.programs.running import environment

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]


def trained(case, folder, **settings):
    """What ``tests/support/programs/tier_disks.py`` prints of a case."""
    skip_without("/dev/fuse", "mount", "unshare")
    called = forked_calls.running_server().call(
        "python_apart", ["-m", "tests.support.programs.tier_disks", case, str(folder)], str(tree.ROOT),
        dict(environment(**settings), PATH=PATH))
    assert called.wait(200.0) == 0, called.err
    return json.loads(called.out.splitlines()[-1])


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    told = trained("usual", tmp_path_factory.mktemp("usual"))
    return told["losses"], told["state"], told["steps"]


@pytest.mark.parametrize("case", [pytest.param("slow", marks=pytest.mark.long), "stuck", "gone"])
def test_a_disk_that_answers_late_or_has_no_directory_any_more_changes_no_bit(case, usual, tmp_path):
    told = trained(case, tmp_path)
    assert (told["losses"], told["state"], told["steps"]) == usual


def test_a_disk_that_is_slow_is_not_taken_for_dead_whatever_a_step_takes(usual, tmp_path):
    told = trained("slower", tmp_path, disk_patience_s=4)
    assert (told["losses"], told["state"], told["steps"]) == usual


def test_a_disk_that_answers_no_more_ends_the_run_with_its_directory_and_what_was_saved_goes_on(usual, tmp_path):
    told = trained("silent", tmp_path, disk_patience_s=7)
    said = re.search(r"E424: No row was read from disk or written for (\d+) s \(disk_patience_s\) while a step waited "
                     r"for rows; operations in flight: \d+ in (\S+)\.", told["error"])
    assert 7 <= int(said.group(1)) < 15 and said.group(2) == told["directory"]
    assert told["ended_after_s"] < 40
    assert (told["losses"], told["state"], told["steps"]) == usual


def test_a_disk_that_cannot_be_read_ends_the_run_with_its_directory_and_what_was_saved_goes_on(usual, tmp_path):
    """Where a row cannot be written because the page it lies in cannot be read, that error may come first."""
    told = trained("unreadable", tmp_path)
    said = (re.search(r"E422: Table 'item': the row of key -?\d+ cannot be read from (?P<directory>\S+) \(disk slot "
                      r"\d+\): (?P<reason>.*?)\. ", told["error"])
            or re.search(r"E423: Table 'item': \d+ rows \(\d+ bytes\) must be written to disk.* no disk accepts them: "
                         r"(?P<reason>.*?)\. Free space: (?P<directory>\S+) has", told["error"]))
    assert said, told["error"]
    assert (said.group("directory"), said.group("reason")) == (told["directory"], os.strerror(5))
    assert (told["losses"], told["state"], told["steps"]) == usual


def test_a_disk_that_cannot_be_read_for_a_while_fails_evaluations_and_saves_with_its_directory(usual, tmp_path):
    told = trained("unread", tmp_path)
    for error in told["errors"]:
        said = re.search(r"E421: table '(user|item)': the row of key -?\d+ cannot be read from disk slot \d+ of (\S+): "
                         r"the disk says: (.*?)\. ", error)
        assert said.groups()[1:] == (told["directory"], os.strerror(5)), error
    assert (told["losses"], told["state"], told["steps"]) == usual


def test_a_full_disk_ends_the_run_with_directory_need_and_room_and_what_was_saved_goes_on(usual, tmp_path):
    told = trained("full", tmp_path)
    said = re.search(r"E423: Table 'item': (\d+) rows \((\d+) bytes\) must be written to disk.* no disk accepts them: "
                     r"(.*?)\. Free space: (\S+) has (\d+) bytes", told["error"])
    rows, need, reason, directory, room = said.groups()
    assert int(need) == int(rows) * (2 * 4 * 4 + 8) and reason == os.strerror(28)
    assert directory == told["directory"] and int(room) < 4096
    assert (told["losses"], told["state"], told["steps"]) == usual
