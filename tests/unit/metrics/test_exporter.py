"""The file of metrics is whole at any time, and answers are asked for no more often than they change."""
import os
import stat

import pytest

from ascpipe import names
from ascpipe.daemon.exporter import require_writable
from ascpipe.errors import MetricsError, NoAnswerError, NotRunningError
from ascpipe.metrics import exporter
from tests.support.statuses import status


@pytest.fixture
def answers(monkeypatch):
    """Answers of a daemon that counts how often it is asked; ``answers.error`` is raised if there is one."""
    class Counted(exporter.Answers):
        now, asked, error = 100.0, 0, None

    def ask(run, body, timeout_s):
        made.asked += 1
        if made.error is not None:
            raise made.error
        return status(run.name, uptime_s=made.asked)

    monkeypatch.setattr(exporter, "ask", ask)
    made = Counted(names.run_dir("unit"), lambda: made.now)
    return made


def test_scrapes_by_the_dozen_ask_once_each_half_second(answers):
    texts = {answers.text() for _ in range(12)}
    assert (len(texts), answers.asked) == (1, 1)
    answers.now += exporter.FRESH_S
    assert answers.text() not in texts
    assert answers.asked == 2


@pytest.mark.parametrize("error", [NotRunningError("unit", "/x"), NoAnswerError("unit", 7, "status", 2.0)])
def test_a_daemon_that_does_not_answer_is_down_and_that_is_logged_once(answers, error, caplog):
    answers.error = error
    for _ in range(3):
        assert b'\nascpipe_up{daemon="unit"} 0.0\n' in answers.text()
        answers.now += exporter.FRESH_S
    assert answers.asked == 3
    assert [record.getMessage() for record in caplog.records] == ["no figures: " + error.sentence()]
    answers.error = None
    assert b'\nascpipe_up{daemon="unit"} 1.0\n' in answers.text()


def test_the_file_is_replaced_as_a_whole_and_all_may_read_it(tmp_path):
    path = tmp_path / "a.prom"
    file = exporter.File(str(path))
    before = os.umask(0o077)
    try:
        file.write(b"one\n")
        with open(str(path), "rb") as reader:
            file.write(b"two\n")
            assert reader.read() == b"one\n"  # a collector that reads sees one or the other
    finally:
        os.umask(before)
    assert path.read_bytes() == b"two\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(str(tmp_path)) == ["a.prom"]
    file.remove()
    file.remove()
    assert os.listdir(str(tmp_path)) == []


def test_two_daemons_with_one_file_take_nothing_from_each_other(tmp_path, caplog):
    path = tmp_path / "a.prom"
    first, second = exporter.File(str(path)), exporter.File(str(path))
    first.write(b"first\n")
    for _ in range(2):
        second.write(b"second\n")
        assert path.read_bytes() == b"first\n"
        first.write(b"first\n")
    assert ["another daemon writes this file" in record.getMessage() for record in caplog.records] == [True]
    second.remove()
    assert path.read_bytes() == b"first\n"
    first.remove()
    second.write(b"second\n")
    first.remove()
    assert path.read_bytes() == b"second\n"
    second.remove()
    assert os.listdir(str(tmp_path)) == []


def test_a_file_that_a_process_left_which_was_killed_is_replaced_and_removed(tmp_path):
    path = tmp_path / "a.prom"
    path.write_bytes(b"old\n")
    (tmp_path / "a.prom.tmp").write_bytes(b"half of a long one")
    file = exporter.File(str(path))
    file.write(b"new\n")
    assert path.read_bytes() == b"new\n"
    file.remove()
    assert os.listdir(str(tmp_path)) == []


def test_a_file_in_which_another_daemon_writes_is_refused_at_the_start(tmp_path):
    path = str(tmp_path / "a.prom")
    require_writable(path)
    file = exporter.File(path)
    file.write(b"one\n")
    with pytest.raises(MetricsError, match="E224: .*a.prom: another daemon writes it"):
        require_writable(path)
    file.remove()
    require_writable(path)


def test_a_file_that_cannot_be_written_is_logged_once_for_each_reason(tmp_path, caplog):
    folder = tmp_path / "gone"
    file = exporter.File(str(folder / "a.prom"))
    file.write(b"one\n")
    file.write(b"two\n")
    assert ["No such file" in record.getMessage() for record in caplog.records] == [True]
    folder.mkdir()
    file.write(b"three\n")
    assert (folder / "a.prom").read_bytes() == b"three\n"
    (folder / "a.prom").unlink()
    (folder / "a.prom").mkdir()
    file.write(b"four\n")
    assert len(caplog.records) == 2 and os.listdir(str(folder)) == ["a.prom"]


def test_a_link_in_the_place_of_the_file_beside_is_not_followed(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.write_text("as it was")
    (tmp_path / "a.prom.tmp").symlink_to(theirs)
    exporter.File(str(tmp_path / "a.prom")).write(b"one\n")
    assert theirs.read_text() == "as it was"
