"""A rank ends with the launcher on another machine that started it."""
import os
import signal
import subprocess
import sys

import pytest

from ascpipe.errors import RanksError
from ascpipe.rank_lifeline import PORT_VARIABLE, Lifeline, end_with_launcher
from tests.support import tree

PROGRAM = """\
import signal, sys, time
{handler}
print("up", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def rank(tmp_path):
    """Starts a rank as the launcher of another machine does; returns its process when the program runs."""
    processes = []

    def start(port, handler=""):
        (tmp_path / "program.py").write_text(PROGRAM.format(handler=handler))
        environment = {**os.environ, "ASCPIPE_RANKS_FOLDER": str(tmp_path), "HOROVOD_CONTROLLER": "gloo",
                       "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", PORT_VARIABLE: str(port), "HOROVOD_RANK": "0",
                       "HOROVOD_SIZE": "1", "PYTHONPATH": str(tree.ROOT)}
        process = subprocess.Popen(
            [sys.executable, str(tree.ROOT / "ascpipe/cli/program.py"), str(tree.ROOT / "ascpipe/standins"), "",
             str(tmp_path / "program.py")], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("handler, code", [
    ("", -signal.SIGTERM),
    ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))", 5),
    pytest.param("signal.signal(signal.SIGTERM, signal.SIG_IGN)", -signal.SIGKILL, marks=pytest.mark.long)])
def test_a_rank_ends_when_its_launcher_is_gone(rank, handler, code):
    with Lifeline(1) as lifeline:
        process = rank(lifeline.port, handler)
        assert process.stdout.readline() == "up\n"
        assert process.poll() is None
    assert process.wait(timeout=60) == code


def test_a_rank_that_cannot_reach_its_launcher_does_not_begin(rank):
    with Lifeline(1) as lifeline:
        port = lifeline.port
    process = rank(port)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "E240: this rank cannot connect to its launcher at 127.0.0.1:{}".format(port) in err


@pytest.mark.parametrize("last, expected", [("", False), ("rank_lifeline.tell_first_batch()", True)])
def test_the_launcher_learns_whether_a_killed_rank_has_trained(rank, last, expected):
    with Lifeline(2) as lifeline:
        process = rank(lifeline.port, "from ascpipe import rank_lifeline\n" + last)
        assert process.stdout.readline() == "up\n"
        process.kill()
        process.wait(timeout=60)
        assert lifeline.has_trained() == expected
        assert not lifeline.has_trained()


@pytest.mark.parametrize("environment", [
    {}, {PORT_VARIABLE: "1"}, {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"}])
def test_a_rank_beside_its_launcher_needs_no_connection(environment):
    assert end_with_launcher(environment) is None


def test_a_wrong_port_is_an_error():
    with pytest.raises(RanksError, match="cannot connect to its launcher at 127.0.0.1:x"):
        end_with_launcher({PORT_VARIABLE: "x", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1"})
