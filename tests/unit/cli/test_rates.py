"""Rates and bottlenecks from answers to ``status``, and the lines of ``ascpipe stats``."""
import json

import pytest
from click.testing import CliRunner

from ascpipe import names
from ascpipe.cli import main, stats, top_screen
from ascpipe.figures import rates

SENTENCES = {
    "keys": "the key worker to deduplicate its keys", "plan": "the table worker to plan it",
    "disk": "the disk worker to read rows", "save": "space in the log of a save", "ranks": "the other ranks",
    "batch": "the next batch", "room": "room in the ring", "step": "an earlier batch to be trained or dropped",
    "nothing": "nothing"}


def wait(name, waits_for, asleep=False):
    return {"who": name, "asleep": asleep, "waits_for": SENTENCES[waits_for], "table": None, "ticket": 0, "sleeps": 0,
            "late": 0}


def look(up=0.0, *, trainer="nothing", pump="batch", workers_sleep=True, depth=10, trained=0, run=1, waited=None,
         **counters):
    """An answer to status of a session with one table and one training stream."""
    table = {"name": "user", "rows": 0, "device_rows": 100, "home_rows": 1000, "hits": 0, "misses": 0, "loads": 0,
             "ids": 0, "batches": 0, "fetches": 0, "spills": 0, **counters}
    ring = {"stream": 0, "channel": "train", "depth": depth, "frame_count": 64, "trained": trained, "parked": 0}
    return {"uptime_s": up, "trainer": {"pid": 9, "run": run, "since": "noon"}, "state": "serving", "tables": [table],
            "rings": [ring, {**ring, "channel": "local", "trained": 999}], "workers": [],
            "waits": [wait("trainer", trainer), wait("pump", pump),
                      wait("key worker 0", "batch", workers_sleep), wait("table worker 0", "batch", workers_sleep)],
            "exchanges": None if waited is None else {"waited_s": waited}, "reading": None}


def test_rates_are_differences_by_the_time_between_two_answers():
    told = rates.rates(
        look(10.0, trained=100, ids=1000, hits=50, misses=50, loads=10, rows=100, batches=7),
        look(12.0, trained=130, ids=9000, hits=230, misses=70, loads=20, rows=110, batches=37, fetches=4, spills=6))
    assert (told["seconds"], told["steps"], told["ids"]) == (2.0, 15.0, 4000.0)
    assert (told["rows_in"], told["rows_read"], told["rows_written"]) == (5.0, 2.0, 3.0)
    assert told["rows_out"] == 10.0  # the device was full: each of the 20 that moved in took the slot of another one
    assert (told["device_hit_rate"], told["host_hit_rate"]) == (0.9, 0.6)
    assert (told["depth"], told["frames"]) == (10, 64)
    assert told["tables"][0]["batches"] == 15.0 and told["rings"][0]["steps"] == 15.0


def test_while_workers_compile_kernels_nothing_else_is_the_bottleneck():
    looks = [{**look(float(up), trainer="keys", depth=30), "compiling": up < 6} for up in range(10)]
    assert rates.bottleneck(looks[:6]) == rates.bottleneck(looks) == "compiling kernels"
    assert rates.bottleneck(looks[6:]) == rates.KEY_WORKER


def test_a_worker_without_a_process_is_not_awake():
    one = look(workers_sleep=False)
    one["workers"] = [{"kind": "key", "index": 0, "pid": None}, {"kind": "table", "index": 0, "pid": 7}]
    assert rates.busy([one]) == {"trainer": 1.0, "pump": 1.0, "table worker 0": 1.0}


def test_rows_that_find_a_free_slot_send_none_out():
    told = rates.rates(look(0.0), look(1.0, misses=60, rows=60))
    assert told["rows_out"] == 0.0
    without_home = rates.rates(look(0.0, home_rows=0, rows=100), look(1.0, home_rows=0, rows=100, misses=9))
    assert without_home["rows_out"] == 0.0


def test_where_nothing_was_done_there_is_no_hit_rate_and_nothing_is_divided_by_zero():
    told = rates.rates(look(1.0), look(1.0))
    assert (told["device_hit_rate"], told["host_hit_rate"], told["steps"]) == (None, None, 0.0)


def test_another_trainer_counts_from_zero():
    told = rates.rates(look(0.0, trained=500, ids=70, run=1), look(1.0, trained=20, ids=90, run=2))
    assert (told["steps"], told["ids"]) == (20.0, 90.0)


@pytest.mark.parametrize("trainer, word", [
    ("keys", "key worker"), ("plan", "table worker"), ("disk", "disk"), ("save", "disk"), ("ranks", "peer")])
def test_what_the_step_waits_for_is_the_bottleneck(trainer, word):
    waits = [look(trainer=trainer, depth=30)] * 2
    assert rates.bottleneck(waits + [look(depth=40)] * 8) == word
    assert rates.waiting(waits + [look(depth=40)] * 8) == 0.2


def test_a_step_that_hardly_waits_is_the_bottleneck_itself():
    looks = [look(trainer="plan")] + [look(depth=40)] * 19
    assert rates.bottleneck(looks) == "step"
    assert rates.waiting(looks) == 0.05


def test_a_step_that_waits_for_an_earlier_step_waits_for_none_of_ours():
    assert rates.bottleneck([look(trainer="step", depth=40)]) == "step"


def test_an_empty_ring_and_workers_without_work_mean_the_input():
    assert rates.bottleneck([look(depth=1)] * 3) == "input"
    assert rates.waiting([look(depth=1)] * 3) == 0.0


@pytest.mark.parametrize("trainer", ["keys", "plan"])
def test_a_step_that_waits_for_a_batch_that_has_just_come_alone_waits_for_the_input(trainer):
    looks = [look(depth=1, trainer=trainer, workers_sleep=False)] * 3 + [look(depth=0)] * 7
    assert (rates.bottleneck(looks), rates.waiting(looks)) == ("input", 0.3)
    assert rates.bottleneck([look(depth=3, trainer="keys")] * 3 + [look(depth=0)] * 7) == "key worker"


@pytest.mark.parametrize("busy", [{"workers_sleep": False}, {"depth": 3}, {"pump": "room"}])
def test_the_input_is_not_to_blame_where_a_worker_has_work_or_batches_lie_ready(busy):
    assert rates.bottleneck([look(**{"depth": 1, **busy})] * 3) == "step"


def test_a_rank_that_waits_in_exchanges_waits_for_its_peers():
    assert rates.bottleneck([look(0.0, waited=5.0), look(2.0, waited=6.0)]) == "peer"
    assert rates.waiting([look(0.0, waited=5.0), look(2.0, waited=6.0)]) == 0.5
    assert rates.bottleneck([look(0.0, waited=5.0), look(2.0, waited=5.1)]) == "step"


def test_a_daemon_without_a_session_has_no_bottleneck():
    idle = {**look(), "rings": [], "tables": [], "waits": [], "trainer": None}
    assert rates.bottleneck([idle, idle]) == "-"
    assert rates.rates(idle, idle)["steps"] == 0


def test_a_process_is_awake_for_the_share_of_looks_that_show_it():
    assert rates.busy([look(), look(workers_sleep=False)])["key worker 0"] == 0.5


class Clock:
    """Of a process for which no time passes but what it sleeps."""

    now = 100.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def answers(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stats, "time", clock)
    monkeypatch.setattr(stats, "chosen", lambda name: names.run_dir("unit"))
    monkeypatch.setattr(stats, "ask", lambda run, message: look(
        clock.now, trained=round(50 * clock.now), ids=round(1000 * clock.now), trainer="keys"))


def test_stats_prints_as_many_lines_as_asked_for_below_a_head(answers):
    done = CliRunner().invoke(main.main, ["stats", "-i", "2", "-n", "3"])
    head, *lines = done.output.splitlines()
    assert (done.exit_code, len(lines)) == (0, 3)
    assert head.split() == ["steps/s", "ids/s", "device", "hit", "host", "hit", "in/s", "out/s", "read/s", "ring",
                            "step", "waits", "bottleneck"]
    assert lines[0].split()[:2] == ["50.0", "1,000"] and lines[0].endswith("10/64    100.0 %  key worker")


def test_stats_as_json_has_an_object_in_each_line(answers):
    lines = CliRunner().invoke(main.main, ["stats", "-i", "0.1", "-n", "2", "--json"]).output.splitlines()
    assert [json.loads(line)["bottleneck"] for line in lines] == ["key worker", "key worker"]


def test_top_has_a_table_for_all_for_tables_for_rings_and_for_processes():
    looks = [look(0.0), look(1.0, trained=20, ids=300)]
    parts = top_screen.screen({**looks[-1], "workers": [
        {"kind": "key", "index": 0, "pid": 6, "attached": True, "hangs_s": 0.0}]}, looks)
    assert [title for title, _, _ in parts] == ["", "processes", "rings", "tables"]
    assert [row[0] for row in parts[1][2]] == ["trainer", "key worker 0"]
    assert parts[3][2][0][:3] == ["user", "0.0", "300"]


def test_top_without_a_terminal_is_wrong_usage():
    done = CliRunner().invoke(main.main, ["top"])
    assert (done.exit_code, "Use `ascpipe top --once` or `ascpipe stats`" in done.output) == (2, True)
