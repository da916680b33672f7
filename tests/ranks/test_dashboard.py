"""The dashboard of a rank shows all ranks of its machine: figures, charts, and which rank waits for which."""
import collections
import glob
import json
import os
import signal

import pytest

from ascpipe import names
from tests.support import browser, ranked_runs
from tests.support.commands import ascpipe
from tests.support.several_ranks import needs_horovod
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pytest.mark.timeout_s(240),
              pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium (Debian: apt-get install chromium)")]

CASE = {"tables": {"user": {}, "item": {"dim": 4}}, "steps": 100000,
        "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}}
TABLE = "[...document.querySelectorAll('#{} tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"


@pytest.fixture
def chromium():
    made = browser.Browser()
    yield made
    made.close()


@pytest.fixture
def pids(tmp_path):
    launched = ranked_runs.begin(tmp_path / "run", 2, CASE, dashboard=1)
    try:
        yield [wait_until(lambda rank=rank: os.path.exists(str(tmp_path / "run" / "{}.pid".format(rank))) and
                          ranked_runs.pid_of(tmp_path / "run", rank), 60.0) for rank in range(2)]
    finally:
        launched.terminate()
        launched.wait(60.0)


def daemon_of(pid):
    return wait_until(lambda: [os.path.basename(path) for path in glob.glob(
        os.path.join(names.base_dir(), "private-{}-*".format(pid)))], 60.0)[0]


def exchanges(name):
    asked = ascpipe("status", "--json", "--name", name)
    return json.loads(asked.stdout)["exchanges"] if asked.returncode == 0 else None


def waits(page):
    """Milliseconds by (waiting rank, rank for which it waits), as the page shows them."""
    head, *rows = page.run(TABLE.format("waits-table"))
    assert head == ["rank", "waits for rank 0", "waits for rank 1"] and [row[0] for row in rows] == ["rank 0", "rank 1"]
    assert rows[0][1] == rows[1][2] == "-"
    return {(0, 1): float(rows[0][2].split()[0]), (1, 0): float(rows[1][1].split()[0])}


def test_the_page_has_the_figures_of_all_ranks_and_who_waits_for_whom(chromium, pids):
    daemons = [daemon_of(pid) for pid in pids]
    wait_until(lambda: all((exchanges(name) or {"exchanges": 0})["exchanges"] > 20 for name in daemons), 60.0)
    page = chromium.open(wait_until(lambda: names.dashboard_of(names.run_dir(daemons[0]))))
    page.until("state.last && state.last.ranks.length === 2 && state.last.ranks.every((one) => one.rates)")
    page.until("ranks.history && ranks.history.series['steps 1'].filter((one) => one > 0).length > 1")
    page.until("document.querySelectorAll('#waits-table tbody tr').length === 2")
    assert page.run("document.querySelectorAll('#rank-charts figure').length") == 3

    page.run("readTimeline()")
    events = page.run("fetched('timeline')")["traceEvents"]  # the same output, which is kept for seconds
    expected = collections.Counter()
    for event in events:
        if event["ph"] == "X" and event.get("args", {}).get("last") is not None and "waited_us" in event["args"]:
            expected[event["args"]["rank"], event["args"]["last"]] += event["args"]["waited_us"] / 1000
    shown = waits(page)
    assert shown == {pair: pytest.approx(expected[pair], abs=0.06) for pair in shown} and max(shown.values()) > 0

    for pid in pids:
        os.kill(pid, signal.SIGSTOP)  # counters stand still
    try:
        time = page.run("state.last.time")
        page.until("state.last.time > {} + 5".format(time))
        told = [exchanges(name) for name in daemons]
        head, *rows = page.run(TABLE.format("ranks-table"))
        for row, one, name in zip(rows, told, daemons):
            found = {column: text.replace(",", "") for column, text in zip(head, row)}
            assert found["rank"] == "{rank} of {ranks}".format(**one) and found["daemon"] == name
            assert found["exchanges"] == str(one["exchanges"])
            assert found["MiB sent"] == "{:.1f}".format(one["bytes_sent"] / 2**20)
            assert found["waited for others"] == "{:.1f} s".format(one["waited_s"])
            assert found["steps/s"] == "0.0"
        charted = page.run("ranks.charts.map(({data}) => data.slice(1).map((column) => column[column.length - 1]))")
        assert charted == page.run("RANK_CHARTS.map(([, name]) => state.last.ranks.map((one) => one.rates[name]))")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert page.errors == []
