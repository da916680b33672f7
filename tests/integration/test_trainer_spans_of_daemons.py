"""A daemon makes the files of spans for a trainer, and removes them; workers are stand-ins."""
import os

import pytest

from ascpipe.cli import timeline
from ascpipe.control import messages, trainer_link
from ascpipe.control.client import ask
from ascpipe.errors import ConfigError
from ascpipe.layout import structs
from ascpipe.layout.words import EVAL, LOCAL
from ascpipe.shm import trainer_spans
from tests.support.daemons import LAYOUT, DaemonProcess, small_session, use_standins


@pytest.fixture(autouse=True)
def _standins(monkeypatch):
    use_standins(monkeypatch)


@pytest.fixture
def started():
    """Starts a daemon, and a session of several ranks: the daemon, and what the trainer got."""
    ended = []

    def start(ranks, **settings):
        daemon = DaemonProcess("unit", workers=2, **settings)
        ended.append(daemon.end)
        return (daemon, *session(daemon, ranks))

    yield start
    for end in ended:
        end()


def session(daemon, ranks):
    link = trainer_link.connect("unit", layout=LAYOUT)
    streams, tables = small_session("user", "item")
    local = [messages.Stream(2, 2, (0, 1), ranks)] if ranks > 1 else []
    segments = link.start([*streams, *local], tables)
    daemon.wait_attached()
    return link, segments


def test_a_trainer_of_several_ranks_gets_the_file_of_exchange_spans_which_ends_with_the_daemon(started):
    daemon, link, segments = started(2, timeline_spans=50)
    fd, size = segments.exchange_spans
    path = daemon.run.exchange_spans
    assert size == structs.TRAINER_SPANS.itemsize + 50 * structs.EXCHANGE_SPAN.itemsize
    assert os.path.samestat(os.fstat(fd), os.stat(path))
    assert trainer_spans.read_exchanges(path) is None
    os.pwrite(fd, (2).to_bytes(4, "little"), structs.TRAINER_SPANS.fields["ranks"][1])
    assert trainer_spans.read_exchanges(path) == trainer_spans.RecordedExchanges(0, os.getpid(), [])
    link.add_stream(messages.Stream(3, 2, (1,), 2))
    link.close()
    assert trainer_spans.read_exchanges(path) is not None  # it can still be looked at
    ask(daemon.run, messages.Stop())
    daemon.wait()
    assert not os.path.exists(path)


def test_a_later_trainer_gets_a_new_file_and_one_of_one_rank_none(started):
    daemon, link, _ = started(3, timeline_spans=50)
    before = os.stat(daemon.run.exchange_spans)
    link.close()
    link, segments = session(daemon, 3)
    fd, _ = segments.exchange_spans
    assert os.fstat(fd).st_ino == os.stat(daemon.run.exchange_spans).st_ino
    assert trainer_spans.read_exchanges(daemon.run.exchange_spans) is None
    assert before.st_size == os.fstat(fd).st_size
    link.close()
    link, segments = session(daemon, 1)
    assert segments.exchange_spans == (-1, 0)
    assert not os.path.exists(daemon.run.exchange_spans)
    link.close()


def test_without_the_setting_exchanges_are_kept_too_and_shown_from_the_start_of_a_trace_on(started):
    daemon, link, segments = started(2)
    fd, size = segments.exchange_spans
    assert size == structs.TRAINER_SPANS.itemsize + 20000 * structs.EXCHANGE_SPAN.itemsize
    os.pwrite(fd, (2).to_bytes(4, "little"), structs.TRAINER_SPANS.fields["ranks"][1])
    with pytest.raises(ConfigError, match="ascpipe trace start"):
        timeline._of_daemon("unit")
    ask(daemon.run, messages.Trace(10))
    assert timeline._of_daemon("unit").exchanges == trainer_spans.RecordedExchanges(0, os.getpid(), [])
    link.close()


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_trainer_gets_a_file_for_the_batches_that_it_reads(started, ranks):
    daemon, link, segments = started(ranks)
    fd, size = segments.reading_spans
    assert size == structs.TRAINER_SPANS.itemsize + 4000 * structs.READING_SPAN.itemsize == os.fstat(fd).st_size
    assert os.path.samestat(os.fstat(fd), os.stat(daemon.run.reading_spans))
    assert trainer_spans.read_reading(daemon.run.reading_spans) is None
    link.add_stream(messages.Stream(3, EVAL if ranks == 1 else LOCAL, (1,), ranks))
    link.close()
    ask(daemon.run, messages.Stop())
    daemon.wait()
    assert not os.path.exists(daemon.run.reading_spans)
