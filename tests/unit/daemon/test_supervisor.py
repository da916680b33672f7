"""What the supervisor does with workers that do not do their part."""
import signal
import sys

import pytest

from ascpipe import names
from ascpipe.control import fdsocket
from ascpipe.daemon.supervisor import Supervisor
from ascpipe.daemon.worker_identity import KEY, Worker
from tests.support.waiting import wait_until

WORKER = Worker(KEY, 0)


@pytest.fixture
def supervisor(tmp_path):
    """Its workers read nothing."""
    run = names.run_dir("unit")
    names.make_private_dir(names.base_dir())
    names.make_private_dir(run.path)
    made = Supervisor(run, {}, {KEY: [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]})
    yield made
    made.close()


def test_a_worker_that_reads_nothing_is_replaced_as_what_it_has_not_got_would_be_lost(supervisor, monkeypatch):
    monkeypatch.setattr(fdsocket, "_SEND_TIMEOUT_S", 0.1)
    supervisor.start(WORKER, 1)
    for _ in range(100):
        supervisor.attach(WORKER, {"verb": "add_table", "text": ["x" * 4000] * 10}, ())
    (ended,) = wait_until(supervisor.reap)
    assert (ended.worker, ended.signal_number) == (WORKER, signal.SIGKILL)
    assert ended.cause == "it did not read its messages, and was killed"
