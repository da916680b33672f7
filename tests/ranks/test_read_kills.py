"""Two ranks read files and are killed at any moment: started again, they train every batch once, bit by bit.

``TEST_KILLS`` is the number of kills in each long form.
"""
import json
import os
import random
import signal
import threading

import psutil
import pytest

from ascpipe.checkpoint.reader import open_checkpoint
from tests.ranks.test_reading import COUNT, SCRIPT, files  # noqa: F401
from tests.support import several_ranks
from tests.support.checkpoints import by_key
from tests.support.several_ranks import needs_horovod
from tests.support.waiting import wait_until

RANKS, STEPS = 2, 15  #: 77 records in batches of 8 per rank, three times
KILLS = int(os.environ.get("TEST_KILLS", "20"))
LONG = [pytest.mark.long, pytest.mark.timeout_s(200 + 60 * KILLS)]

pytestmark = [needs_horovod, pytest.mark.timeout_s(280)]


class Program:
    """Ranks that train in one folder, by turns killed and started again.

    Attributes:
        history: (rank, step) -> record numbers and bits of the loss.
    """

    def __init__(self, folder, paths):
        self.folder = folder / "saved"
        self._out = folder / "lines"
        self._case = {"way": "session", "folder": str(self.folder), "files": paths, "steps": -1, "every": 2,
                      "out": str(self._out)}
        self.history = {}

    def start(self, step_s):
        for rank in range(RANKS):
            path = self.lines_of(rank)
            if path.exists():
                path.unlink()
        words = json.dumps({**self._case, "step_s": step_s})
        return several_ranks.started(several_ranks.horovodrun(RANKS, SCRIPT, words), HOROVOD_FUSION_THRESHOLD="0",
                                     ASCPIPE_RING_BYTES=str(1 << 21))

    def lines_of(self, rank):
        return self._out.with_name("{}.{}".format(self._out.name, rank))

    def lines(self, rank):
        path = self.lines_of(rank)
        return path.read_text().splitlines(keepends=True) if path.exists() else []

    def rank(self, number):
        """The process of a rank that has begun."""
        (pid,) = [int(line.split()[1]) for line in self.lines(number) if line.startswith("pid ")]
        return psutil.Process(pid)

    def note(self):
        """Add the complete lines. Steps that are trained again have the same records and losses."""
        for rank in range(RANKS):
            for line in self.lines(rank):
                step, _, rest = line.partition(" ")
                if step.isdigit() and line.endswith("\n"):
                    assert self.history.setdefault((rank, int(step)), rest) == rest, (rank, line)

    def end(self, running):
        """Wait for the end of the ranks; exit code and what they said."""
        out, err = running.communicate(timeout=200)
        self.note()
        return running.returncode, out + err

    def final_state(self):
        """Rows and slots by key, and the variables, in the checkpoint of the last step."""
        with open_checkpoint(str(self.folder / "model-{}".format(STEPS))) as checkpoint:
            state = {table: by_key(checkpoint.blocks(table)) for table in checkpoint.tables}
        assert set(state) == {"user", "item"}
        return {**state, "variables": (self.folder / "model-{}.data-00000-of-00001".format(STEPS)).read_bytes()}


@pytest.fixture(scope="module")
def undisturbed():
    return {}


def expected(undisturbed, folder, paths):
    """History and state of ranks that nothing disturbs."""
    if not undisturbed:
        program = Program(folder / "undisturbed", paths)
        program.folder.parent.mkdir()
        code, said = program.end(program.start(0))
        assert code == 0, said
        numbers = [int(number) for rest in program.history.values() for number in rest.split()[0].split(",")]
        assert sorted(numbers) == sorted(3 * list(range(COUNT)))
        undisturbed.update(history=program.history, state=program.final_state())
    return undisturbed


def kill_rank(process, draw):
    process.send_signal(signal.SIGKILL)


def kill_daemon(process, draw):
    _kill_titled(process, draw, "ascpipe: daemon")


def kill_worker(process, draw):
    _kill_titled(process, draw, "ascpipe: table worker", "ascpipe: key worker")


def _kill_titled(process, draw, *titles):
    found = [child for child in process.children(recursive=True)
             if " ".join(child.cmdline()).startswith(titles)]
    draw.choice(sorted(found, key=lambda child: child.pid)).send_signal(signal.SIGKILL)


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=LONG)])
@pytest.mark.parametrize("act", [kill_rank, pytest.param(kill_daemon, marks=LONG), kill_worker])
def test_killed_ranks_train_every_batch_once(tmp_path, files, undisturbed, seed, act, kills):  # noqa: F811
    known = expected(undisturbed, tmp_path, files)
    draw, made, programs = random.Random(seed), 0, 0
    while made < kills:
        folder = tmp_path / "program-{}".format(programs)
        folder.mkdir()
        programs += 1
        program, code = Program(folder, files), None
        while code != 0:
            running = program.start(0.1 if made < kills else 0)
            lines = draw.randrange(1, 10)
            wait_until(lambda: len(program.lines(0)) > lines or running.poll() is not None, 100.0, "steps")  # noqa: B023
            threading.Event().wait(draw.uniform(0.0, 0.2))
            disturbs = made < kills and running.poll() is None and "end\n" not in program.lines(0)
            if disturbs:
                act(program.rank(draw.randrange(RANKS)), draw)
                made += 1
            code, said = program.end(running)
            assert code == 0 or disturbs, said
            assert code == 0 or act is not kill_worker, said
        assert program.history == known["history"] or act is not kill_worker
        assert {**known["history"], **program.history} == known["history"]
        assert program.final_state() == known["state"]
