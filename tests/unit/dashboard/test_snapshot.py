"""The page has the figures of ``status``, ``stats`` and ``top``, and names what is wrong."""
import copy
import json

import pytest

from ascpipe.cli.top_screen import screen
from ascpipe.dashboard import site, snapshot, warnings
from ascpipe.dashboard.history import OF_TABLE, OVERVIEW
from ascpipe.figures.summary import limit, summary
from tests.support.statuses import status


def looks(**replaced):
    """Two answers, 2 s apart, in which every counter of tables and rings has grown by 10."""
    before = status()
    after = copy.deepcopy(before)
    after["uptime_s"] += 2.0
    for part in (*after["tables"], *after["rings"]):
        for key in ("hits", "misses", "loads", "ids", "batches", "trained", "fetches", "spills"):
            if key in part:
                part[key] += 10
    after.update(replaced)
    return [snapshot.Look(before, {500: 1.0, 700: 3.0}), snapshot.Look(after, {500: 1.5, 600: 9.0, 700: 3.2})]


def test_the_figures_are_those_of_the_commands():
    seen = looks()
    statuses = [look.status for look in seen]
    shown = snapshot.snapshot(seen)
    assert shown["status"] == statuses[-1]
    assert shown["rates"] == summary(statuses)
    assert shown["limit"] == limit(summary(statuses))
    of_top = {title: rows for title, _, rows in screen(statuses[-1], statuses)}["processes"]
    assert [one["process"] for one in shown["processes"]] == ["daemon", *(row[0] for row in of_top)]
    assert [one["state"] for one in shown["processes"]][2:] == [row[2] for row in of_top][1:]
    json.loads(site.as_json(shown))


def test_processor_time_is_of_the_time_between_the_looks():
    found = {one["process"]: one for one in snapshot.snapshot(looks())["processes"]}
    assert found["daemon"]["cpu"] == pytest.approx(0.25) and found["daemon"]["cpu_s"] == 1.5
    assert found["key worker 0"]["cpu"] == pytest.approx(0.1)
    assert found["trainer"]["cpu"] is None and found["trainer"]["cpu_s"] == 9.0
    assert found["table worker 1"]["cpu_s"] is None  # it has no process


def test_a_point_has_the_series_of_the_history():
    seen = looks()
    shown = snapshot.snapshot(seen)
    overview, tables = snapshot.point(seen, shown)
    assert set(overview) == set(OVERVIEW)
    assert overview["steps"] == shown["rates"]["steps"] == 5.0
    assert set(tables) == {"user", 'a "table"'} and all(set(one) == set(OF_TABLE) for one in tables.values())
    assert tables["user"]["keys"] == shown["status"]["tables"][0]["keys"]


def test_one_look_is_enough():
    shown = snapshot.snapshot(looks()[:1])
    assert shown["rates"]["steps"] == 0.0


def told(**replaced):
    return {"bottleneck": "step", "slow_input": None, "tables": [], "reading": None, "seconds": 5.0, **replaced}


def warned(found, of):
    return warnings.warnings_of(found, of, 0.4, 8)


def quiet(**replaced):
    """A status about which there is nothing to say."""
    one = status(exchanges=None, reading=None, **replaced)
    for worker in one["workers"]:
        worker.update(restarts=0, hangs_s=0.0)
    for wait in one["waits"]:
        wait["late"] = 0
    for table in one["tables"]:
        table.update(rows=10, home_rows=100, disk_slots=0, save_waits=0)
    return one


def test_a_training_that_is_well_has_no_warnings():
    assert warned(quiet(), told()) == []


def changed(part, number, **values):
    one = quiet()
    one[part][number].update(values)
    return one


@pytest.mark.parametrize("found, of, words", [
    (quiet(failure="E122: The table worker died"), told(), ("failed: E122", "Restart the program")),
    (quiet(failure="something"), told(), ("failed: something", "ascpipe logs")),
    (changed("workers", 0, hangs_s=7.4), told(), ("key worker 0 has made no progress for 7 s", "kill -CONT 700")),
    (changed("workers", 1, restarts=2), told(), ("table worker 1 was restarted 2 times", "`ascpipe logs` shows why")),
    (quiet(), told(bottleneck="disk"), ("waits for the disk", "operations.md")),
    (quiet(), told(bottleneck="key worker"), ("key worker for 40 %", "Set workers to 2")),
    (quiet(), told(bottleneck="input", slow_input="asc.data.read (busy)"), ("input: asc.data.read", "dataset")),
    (changed("tables", 0, rows=95), told(), ("'user' is nearly full: 95 of 100", "host_vocabulary_size")),
    (changed("tables", 0, save_waits=1), told(), ("waited once for a save", "save_log_bytes")),
    (changed("tables", 0, rows=80, device_rows=10),
     told(tables=[{"table": "user", "device_hit_rate": 0.2, "rows_in": 4.0, "rows_read": 0.0}]),
     ("20.0 % of its keys were on the device, and 20 rows", "device_vocabulary_size of 'user' from 10 to up to 80")),
    (changed("waits", 0, late=3), told(), ("trainer was woken late 3 times", "bug")),
    ({**quiet(), "reading": {"skipped": 4}}, told(), ("skipped 4 bad records", "data check")),
    ({**quiet(), "exchanges": {"slowest_s": 2.0, "slowest": 3}}, told(), ("waited 2.0 s for rank 3", "network"))])
def test_each_warning_comes_with_its_cure(found, of, words):
    one, = warned(found, of)
    assert words[0] in one.text and words[1] in one.cure
