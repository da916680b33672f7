"""docs/reference/metrics.md has the table of metrics, line by line, and the dashboard asks for nothing else.

After a change of the table, this prints the lines for the document:

    python -m tests.house.test_metrics_docs
"""
import json
import re
import sys

from ascpipe.metrics import figures
from tests.support import tree

DOCUMENT = tree.ROOT / "docs/reference/metrics.md"
DASHBOARD = tree.ROOT / "docs/grafana/ascpipe.json"
METRICS = {metric.name: metric for metric in [figures.UP, *figures.METRICS]}


#: first metric of a part of the table: title of the part, and labels of all its metrics
PARTS = {
    "ascpipe_up": ("Daemon", ()), "ascpipe_worker_running": ("Workers", ("worker",)),
    "ascpipe_table_keys": ("Tables", ("table",)), "ascpipe_disk_queued": ("Disks", ("disk",)),
    "ascpipe_ring_depth": ("Rings", ("stream", "channel")), "ascpipe_process_asleep": ("Processes", ("process",)),
    "ascpipe_reading_readers": ("Readers of training data; ranks", ())}


def lines():
    common = ()
    for metric in METRICS.values():
        if metric.name in PARTS:
            title, common = PARTS[metric.name]
            labels = " and ".join(map("`{}`".format, common))
            labelled = "Metrics of {} have the label{} {}".format(title.lower(), "s" * (len(common) > 1), labels)
            yield from ("", "{}:".format(labelled if common else title), "", "| name | meaning |", "|---|---|")
        assert metric.labels[:len(common)] == common, metric.name
        names = ", ".join(map("`{}`".format, (metric.name, *metric.labels[len(common):])))
        yield "| {} | {} |".format(names, metric.text)


def test_the_document_has_the_table_of_metrics_line_by_line():
    text = DOCUMENT.read_text()
    assert "\n".join(lines()) in text and text.count("\n| `ascpipe_") == len(METRICS)


def test_documents_name_no_metric_that_is_not_there():
    for path in sorted((tree.ROOT / "docs").rglob("*.md")):
        named = set(re.findall(r"\bascpipe_(?:table|disk|ring|process|exchange|session|worker|messages)_\w+",
                               path.read_text()))
        assert named <= set(METRICS), path


def panels():
    return json.loads(DASHBOARD.read_text())["panels"]


def queries():
    """Query and legend of each line of a panel, then those of variables."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"], target.get("legendFormat", "")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"], ""


def test_the_dashboard_asks_for_metrics_and_labels_of_the_table_alone():
    asked = list(queries())
    assert len(asked) > 20
    for query, legend in asked:
        named = re.findall(r"\bascpipe_\w+", query)
        assert named and set(named) <= set(METRICS), query
        known = {"daemon", "instance"} | {label for name in named for label in METRICS[name].labels}
        used = set(re.findall(r"\{\{(\w+)\}\}", legend)) | set(re.findall(r"(\w+)=~?\"", query))
        for group in re.findall(r"\bby \(([^)]*)\)", query):
            used |= set(re.split(r",\s*", group))
        assert used <= known, (query, legend, used - known)


def test_the_dashboard_rates_counters_and_shows_gauges_as_they_are():
    for query, _ in queries():
        for name in re.findall(r"\bascpipe_\w+", query):
            rated = re.search(r"(rate|increase)\({}\b".format(name), query) is not None
            assert rated == (METRICS[name].kind == figures.COUNTER), query


def test_every_panel_has_a_place_and_a_number_of_its_own():
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    taken = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
