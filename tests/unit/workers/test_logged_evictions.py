"""A worker writes the keys of an eviction to the log before it evicts them, so a kill loses none of them."""
import functools

import pytest

from ascpipe.eviction_log import EVICTED, EvictionLog, parsed
from ascpipe.tables.table import Table
from ascpipe.workers.train_stage import TrainStage
from tests.support import pipeline_sim
from tests.support.sim_ring import Home

TIERS = {"device": [], "host": [Home(16, 4)]}


class KilledError(BaseException):
    """Stands for SIGKILL."""


def logged(path):
    return [(loss.table, loss.key, loss.batch, loss.last_seen, loss.why)
            for loss in map(parsed, path.read_bytes().splitlines())]


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The log of all workers."""
    path = tmp_path / "log"
    monkeypatch.setattr(pipeline_sim, "TrainStage", functools.partial(
        TrainStage, log=EvictionLog(str(path), 1 << 20, print)))
    return path


def trained(tier):
    """A table whose keys 5 and 7 are old."""
    sim = pipeline_sim.Sim([8], homes=TIERS[tier])
    sim.train([5, 7, 8], timestamp=100)
    sim.train([8, 9], timestamp=130)
    return sim


@pytest.mark.parametrize("tier", TIERS)
def test_each_evicted_key_has_a_line(tier, path):
    sim = trained(tier)
    sim.ask_eviction(0, 40)
    sim.work()
    assert not path.exists()
    sim.ask_eviction(0, 30)
    sim.work()
    assert sorted(logged(path)) == [("", 5, "0:2", 100, EVICTED), ("", 7, "0:2", 100, EVICTED)]
    assert sorted(sim.trained_state(0)) == [8, 9]
    sim.check(0)


@pytest.mark.parametrize("moment", ["before the eviction", "after the eviction"])
def test_after_a_kill_no_line_is_missing_and_lines_that_are_there_twice_are_equal(path, monkeypatch, moment):
    sim = trained("host")
    sim.ask_eviction(0, 30)
    with monkeypatch.context() as patched:
        evict = Table.evict

        def killed(table, age):
            if moment == "after the eviction":
                evict(table, age)
            raise KilledError

        patched.setattr(Table, "evict", killed)
        with pytest.raises(KilledError):
            sim.work()
    sim.kill(0)
    sim.work()
    lines = logged(path)
    assert sorted({line[1] for line in lines}) == [5, 7] and len(set(lines)) == 2
    assert len(lines) == (4 if moment == "before the eviction" else 2)
    assert sorted(sim.trained_state(0)) == [8, 9]
    sim.check(0)


def test_keys_whose_lines_cannot_be_written_are_counted_and_evicted(path):
    sim = trained("host")
    path.mkdir()
    sim.ask_eviction(0, 30)
    sim.work()
    header = sim.tables[0].header
    assert (header["unlogged_evicted"], header["evicted"]) == (2, 2)
    path.rmdir()
    sim.train([8], timestamp=160)
    sim.ask_eviction(0, 30)
    sim.work()
    assert (header["unlogged_evicted"], header["evicted"]) == (2, 3)
    told, line = path.read_bytes().splitlines()
    assert (told, parsed(line).key) == (b"# 2 lines were lost", 9)
