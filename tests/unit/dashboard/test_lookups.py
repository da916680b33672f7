"""Commands are run one at a time, with limits, and their outputs are kept for a while."""
import json
import os
import sys

import pytest

from ascpipe.dashboard import lookups
from tests.support.waiting import wait_until


class Looked:
    """Lookups whose clock is the test's, of a command that is Python code: the arguments are ``-c`` and the code."""

    def __init__(self):
        self.now = 100.0
        self.made = lookups.Lookups(lambda: self.now, [sys.executable])

    def output(self, code, *more, fresh_s=10.0):
        return self.made.output(["-c", code, *more], fresh_s)

    def awaited(self, code, *more):
        def look():
            self.made.look()
            return self.output(code, *more)

        return json.loads(wait_until(look).text)


@pytest.fixture
def looked():
    made = Looked()
    yield made
    made.made.close()


def test_an_output_is_kept_for_its_time(looked):
    code = "import json, os; print(json.dumps({'pid': os.getpid()}))"
    assert looked.output(code) is None
    first = looked.awaited(code)
    looked.now += 9
    assert looked.awaited(code) == first
    looked.now += 2
    assert looked.output(code) is None
    assert looked.awaited(code) != first


def test_a_command_may_write_its_output_to_a_file(looked):
    code = "import sys; open(sys.argv[1], 'w').write('[1, 2]'); print('a line')"
    assert looked.awaited(code, lookups.OUTPUT) == [1, 2]


@pytest.mark.parametrize("code, words", [
    ("import sys; sys.exit('ascpipe: E212: nobody')", "E212: nobody"), ("", "exited with 0"),
    ("print('x' * {})".format(lookups.OUTPUT_BYTES + 1), "larger than")])
def test_a_command_that_fails_is_an_error(looked, code, words):
    assert words in looked.awaited(code)["error"]


def test_a_command_that_takes_too_long_is_ended(looked):
    code = "import signal; signal.pause()"
    assert looked.output(code) is None
    looked.made.look()
    pid = looked.made._running.process.pid
    looked.now += lookups.LIMIT_S + 1
    looked.made.look()
    assert "longer than" in json.loads(looked.output(code).text)["error"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_queue_and_the_outputs_that_are_kept_are_bounded(looked):
    codes = ["print({})".format(number) for number in range(lookups.MOST_WAITING + 1)]
    assert [looked.output(code) for code in codes[:-1]] == [None] * lookups.MOST_WAITING
    assert b"too many requests" in looked.output(codes[-1]).text
    assert looked.output(codes[0]) is None, "a command that waits is not queued again"
    for code in codes:
        looked.awaited(code)
    assert len(looked.made._kept) == lookups.MOST_KEPT
    assert looked.made.wait_s() is None
