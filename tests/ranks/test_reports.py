"""The report of a rank has the figures of all ranks of its machine, as their daemons have recorded them."""
import json

import pytest

from ascpipe.control import run_record
from tests.support import ranked_runs
from tests.support.commands import ascpipe
from tests.support.several_ranks import needs_horovod

pytestmark = [needs_horovod, pytest.mark.timeout_s(150)]

CASE = {"tables": {"user": {}, "item": {"dim": 4}}, "steps": 150,
        "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}}


def test_the_report_of_a_rank_has_all_ranks_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ranked_runs.train(tmp_path / "run", 2, CASE, XDG_STATE_HOME=str(tmp_path / "state")).require_good_end()
    records = [run_record.read(name) for name in run_record.names()]
    assert len(records) == 2
    expected = {}
    for record in records:
        counted = [sample for sample in record.samples if sample["exchanges"] is not None]
        first, last = counted[0], counted[-1]
        seconds = last["uptime_s"] - first["uptime_s"]
        told, before = last["exchanges"], first["exchanges"]
        expected[told["rank"]] = {
            "sent_bytes": (told["bytes_sent"] - before["bytes_sent"]) / seconds,
            "waited": (told["waited_s"] - before["waited_s"]) / seconds,
            "steps": (last["rings"][0]["trained"] - first["rings"][0]["trained"]) / seconds}
    for record in records:
        path = tmp_path / (record.name + ".html")
        done = ascpipe("report", record.name, "--json", "--html", path)
        figures = json.loads(done.stdout)["ranks"]
        assert figures["count"] == 2 and [one["rank"] for one in figures["ranks"]] == [0, 1]
        for one in figures["ranks"]:
            assert {name: one[name] for name in expected[0]} == pytest.approx(expected[one["rank"]])
        slowest = max((record.samples[-1]["exchanges"] for record in records), key=lambda told: told["slowest_s"])
        assert (figures["slowest"], figures["slowest_s"]) == (slowest["slowest"], round(slowest["slowest_s"], 2))
        assert "Waits of rank 0: mean" in path.read_text() and "Waits of rank 1: mean" in path.read_text()
