"""Ranks that a case drives: all of them answer each turn, stand still between turns, and fail as programs do."""
import os
import sys
from pathlib import Path

import pytest

from bench.programs import ProgramError
from bench.ranks_sides import Ranks
from tests.support.waiting import wait_until

RANK = """
import json, os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
lines, trained = connection.makefile("r"), 1
steps = 1
while steps:
    connection.sendall(json.dumps({"pid": os.getpid(), "processor_s": trained, "connections": 3,
                                   "sent_bytes": 10 * trained, "packets": trained}).encode() + b"\\n")
    steps = int(lines.readline() or 0)
    trained += steps
    if steps == 99:
        sys.exit(5)
"""
TWO = "import os, sys\npid = os.fork()\n" + RANK + "\nif pid: os.wait()"


class Launched:
    def __init__(self, ranks, code):
        self.ranks, self._code = ranks, code

    def command(self):
        return [sys.executable, "-c", self._code]


def state_of(pid):
    return Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()[0]


def test_all_ranks_train_a_turn_and_what_they_used_is_added_up():
    with Ranks(Launched(2, TWO)) as ranks:
        ranks.join()
        ranks.turn(3)()
        ranks.turn(4)()
    assert ranks.processor_s == 2 * (1 + 3 + 4)
    assert ranks.connections == 3
    assert ranks.turns == [{"processor_s": 6, "sent_bytes": 30, "packets": 3},
                           {"processor_s": 8, "sent_bytes": 40, "packets": 4}]


def test_ranks_stand_still_between_two_turns_and_run_to_their_end():
    with Ranks(Launched(1, RANK)) as ranks:
        ranks.join()
        pid, = ranks._pids
        wait_until(lambda: state_of(pid) == "T", 30, "it is stopped")
        ranks.train(1)
    assert not os.path.exists("/proc/{}".format(pid))


@pytest.mark.parametrize("code", ["raise SystemExit(5)", "import socket, sys\n"
                                  "socket.create_connection(('127.0.0.1', int(sys.argv[1])))\nraise SystemExit(5)"])
def test_a_launcher_that_ends_instead_of_training_is_an_error(code):
    with pytest.raises(ProgramError, match="ended with 5"):
        with Ranks(Launched(1, code)) as ranks:
            ranks.join()


def test_a_rank_that_ends_in_its_turn_is_an_error():
    with pytest.raises(ProgramError, match="ended with 5"):
        with Ranks(Launched(1, RANK)) as ranks:
            ranks.join()
            ranks.train(99)
