"""The dashboard in a headless Chromium while a program trains: its panels, its figures, its use by keyboard."""
import json
import os
import re
import time
import urllib.parse

import pytest

from ascpipe import names
from ascpipe.control import saves
from tests.support import browser
from tests.support.ascend_programs import run
from tests.support.checkpoints import content, save
from tests.support.commands import ascpipe
from tests.support.daemons import DaemonProcess
from tests.support.programs import running
from tests.support.watched_training import trained_by

pytestmark = [pytest.mark.timeout_s(240), pytest.mark.usefixtures("forked_programs")]

NEEDS_CHROMIUM = pytest.mark.skipif(browser.CHROMIUM is None, reason="no chromium (Debian: apt-get install chromium)")
PANELS = ["overview", "warnings", "tables", "workers", "ranks", "timeline", "checkpoints"]
CHARTS = os.path.exists(os.path.join(os.path.dirname(browser.__file__), "../../ascpipe/dashboard/uplot/digest"))
NEEDED = {"/page.css", "/page.js", "/page.svg", "/panels.js", "/charts.js", "/uplot.css", "/uplot.js", "/ranks.js",
          "/checkpoints.js", "/history", "/events", "/checkpoints"}  # requests for the first figures, each once
REQUESTS = """
(() => {
  const figures = performance.getEntriesByName("figures")[0].startTime;
  return performance.getEntriesByType("resource").filter((one) => one.startTime < figures).map((one) => one.name);
})()
"""
ROWS = """
(() => {
  const table = document.getElementById(%s);
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell, at) => [names[at], cell.textContent]));
})()
"""


@pytest.fixture(scope="module")
def chromium(_module_leaves_nothing_behind):
    """It ends before the module's leak gate, even if the last test does not use it."""
    made = browser.Browser()
    yield made
    made.close()


@pytest.fixture
def daemon():
    made = DaemonProcess("watched", dashboard=1, ring_bytes=running.RING_BYTES)
    yield made
    made.end()


def opened(chromium, daemon, width=1200, height=900):
    page = chromium.open(names.dashboard_of(daemon.run))
    page.resize(width, height, mobile=width < 500)
    page.until("document.querySelectorAll('#tables-table tbody tr').length > 0")
    return page


def status():
    return json.loads(ascpipe("status", "--json", "--name", "watched").stdout)


def rows(page, table):
    """The rows of a table of the page: name of a column -> text, without the separators of thousands."""
    return [{name: re.sub(r"(?<=\d),(?=\d{3})", "", text) for name, text in reversed(row)}
            for row in page.run(ROWS % json.dumps(table))]


@NEEDS_CHROMIUM
def test_every_panel_has_the_figures_of_status(chromium, daemon, tmp_path):
    prefix = save(str(tmp_path), 900, [content()])
    with trained_by("watched") as program:
        page = opened(chromium, daemon)
        page.until("document.querySelectorAll('#timeline-table tbody tr').length > 1")  # read while it trains
        earlier = saves.Save(str(tmp_path / "base-800"), time.time() - 60, 0.5, 1 << 20, saves.DELTA)
        saves.note(daemon.run, earlier)  # the start of a session removes older ones
        saves.note(daemon.run, saves.Save(prefix, time.time(), 1.25, 3 << 20, saves.FULL))
        program.pause()
        told = status()
        page.until("state.last.status.uptime_s > {}".format(told["uptime_s"]))
        told = status()

        table, = rows(page, "tables-table")
        expected, = told["tables"]
        for column, value in [("table", expected["name"]), ("keys", expected["keys"]), ("dim", expected["dim"]),
                              ("host rows", expected["home_rows"]), ("swapped in", expected["loads"]),
                              ("new keys", expected["misses"] - expected["loads"]), ("of", expected["device_rows"]),
                              ("evicted", expected["evicted"]), ("batches", expected["batches"]),
                              ("device hits", "{:.1f} %".format(100 * expected["hit_rate"])),
                              ("host MiB", "{:.1f}".format(expected["host_bytes"] / 2**20))]:
            assert table[column] == str(value), column

        processes = {row["process"]: row for row in rows(page, "processes-table")}
        assert set(processes) == {"daemon", "trainer", "key worker 0", "table worker 0"}
        for worker in told["workers"]:
            row = processes["{} worker {}".format(worker["kind"], worker["index"])]
            assert (row["pid"], row["restarts"], row["state"]) == (str(worker["pid"]), "0", "working")
            assert float(row["processor time"].split()[0]) >= 0
        assert processes["trainer"]["pid"] == str(told["trainer"]["pid"])

        ring = rows(page, "rings-table")[0]
        assert (ring["stream"], ring["trained"], ring["submitted"], ring["dropped"]) == ("0 train", *(
            str(told["rings"][0][name]) for name in ("trained", "submitted", "dropped")))

        page.until("document.querySelectorAll('#checkpoints-table button').length")
        page.run("document.querySelector('#checkpoints-table button').click()")
        page.until("/ok$/.test(document.querySelector('#checkpoints-table tbody tr').textContent)")
        newest, older = rows(page, "checkpoints-table")
        assert (newest["checkpoint"], newest["duration"], newest["rows"], newest["files"], newest["MiB"],
                newest["kind"]) == (prefix, "1.3 s", "20", "complete", "3.0", "full")
        assert (older["checkpoint"], older["duration"], older["MiB"], older["kind"], older["files"]) == (
            earlier.prefix, "0.5 s", "1.0", "delta", "deleted")
        durations, sizes = page.run("checkpoints.charts.map((chart) => chart.data)")
        assert durations[0] == sizes[0] == [save.at for save in saves.read(daemon.run)]
        assert durations[1] == [0.5, 1.25] and sizes[1:] == [[None, 3 << 20], [1 << 20, None]]

        assert {row["process"] for row in rows(page, "timeline-table")} == {"key worker 0", "table worker 0"}
        assert "one rank" in page.run("document.getElementById('ranks-text').textContent")
        for panel in PANELS:
            assert len(page.run("document.getElementById('{}').innerText".format(panel))) > 20, panel
        if CHARTS:
            assert page.run("document.querySelectorAll('#overview-charts canvas, #timeline-chart canvas').length") == 8
            assert page.run("document.querySelectorAll('#checkpoints-charts canvas').length") == 2
        page.until("document.querySelectorAll('#overview-charts details').length === 7")
        page.run("document.querySelectorAll('#overview-charts details')[0].open = true")
        assert float(page.until("document.querySelector('#overview-charts details td') && "
                                "document.querySelector('#overview-charts details td').textContent")) >= 0
        program.go_on()
        batches = expected["batches"]
        page.until("state.last.status.tables[0].batches > {}".format(batches))  # more events arrive
        assert page.errors == []


@NEEDS_CHROMIUM
def test_the_first_figures_need_few_requests_and_no_history(chromium, daemon):
    with trained_by("watched"):
        page = opened(chromium, daemon)
        asked = [urllib.parse.urlsplit(name) for name in page.run(REQUESTS)]
        base = urllib.parse.urlsplit(names.dashboard_of(daemon.run))
        assert {one.netloc for one in asked} == {base.netloc}
        assert {one.path for one in asked} <= NEEDED and len(asked) <= len(NEEDED)
        page.until("state.history !== null && state.early.length === 0")
        page.run("(() => { state.test = state.history; state.history = null; })()")  # as if the history were slow
        page.until("state.early.length > 0")
        page.run("begin(state.test)")
        times = page.run("state.history.time")
        assert times == sorted(set(times)) and len(times) >= 2
        assert page.errors == []


@NEEDS_CHROMIUM
def test_the_page_is_used_by_keyboard_on_a_narrow_screen_in_the_dark(chromium, daemon):
    with trained_by("watched"):
        page = opened(chromium, daemon, 360, 700)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        page.until("getComputedStyle(document.documentElement).backgroundColor === 'rgb(13, 17, 23)'")
        page.until("document.querySelectorAll('#timeline-table tbody tr').length > 1")
        assert page.run("document.documentElement.scrollWidth") <= 360
        wanted = page.run("[...document.querySelectorAll('a, button, summary')].filter(one => one.offsetParent).length")
        focused = []
        for _ in range(wanted + 30):
            page.press("Tab")
            focused.append(page.run("document.activeElement.outerHTML.slice(0, 120)"))
            if "<body" in focused[-1] or len(focused) > 1 and focused[-1] == focused[0]:
                break
            if "<button" in focused[-1] and ">ids<" in focused[-1]:
                page.press("Enter")
                page.until("document.activeElement.id === 'h-detail'")
                assert page.run("document.activeElement.textContent") == "Table ids"
        assert "Skip" in focused[0] and "#overview" in focused[1]
        for id_ in ("timeline-read", "zoom-in", "zoom-out", "earlier", "later", "zoom-all"):
            assert [one for one in focused if 'id="{}"'.format(id_) in one], id_
        hot = page.until("document.querySelector('#hot-table tbody tr') && "
                         "document.getElementById('hot-text').innerText")
        assert "sample" in hot or "counted" in hot
        shares = [float(row["share"].split()[0]) for row in rows(page, "hot-table")]
        assert shares == sorted(shares, reverse=True) and 0 < sum(shares) <= 100.5
        assert page.run("document.documentElement.scrollWidth") <= 360
        live = page.run("[...document.querySelectorAll('[aria-live]')].map(one => one.id)")
        assert live == ["bottleneck"]
        assert page.errors == []


@NEEDS_CHROMIUM
def test_a_page_without_its_token_says_what_to_do(chromium, daemon):
    page = chromium.open(names.dashboard_of(daemon.run)[:-1])
    page.until("document.body && document.body.innerText.includes('ascpipe dashboard')")


def test_a_program_under_run_prints_the_address(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import os; print(os.environ['ASCPIPE_DASHBOARD'])")
    assert run(script, options=["--dashboard"]) == (0, "1\n", "")
    refused = ascpipe("run", "--dashboard", "--daemon", "mine", script)
    assert refused.returncode == 2 and "ascpipe dashboard --name mine" in refused.stderr


def test_the_trainer_prints_the_address_when_it_starts(daemon, tmp_path):
    with trained_by("watched", err=tmp_path / "err"):
        assert "dashboard of daemon watched: {}\n".format(names.dashboard_of(daemon.run)) in (
            tmp_path / "err").read_text()
