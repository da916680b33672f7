"""The page of a report: whole, without scripts or foreign data, small, with escaped names."""
import html.parser
import re

from ascpipe.figures.advice import Advice
from ascpipe.report.charts import bars, line_chart
from ascpipe.report.page import page

TABLE = {"name": "<b>user", "rows": 5, "device_rows": 10, "home_rows": 0, "device_hit_rate": None, "loads": 0,
         "evicted": 0, "fetches": 0, "save_waits": 0, "growth": [(float(at), float(at)) for at in range(720)]}
FIGURES = {"run": {"daemon": "unit", "steps per second": 12.5}, "steps": [(0.0, 1.0), (1.0, 3.0)], "ids": [],
           "bottlenecks": {"step": 0.75, "disk": 0.25}, "awake": {"key worker 0": 0.5}, "tables": [TABLE],
           "checkpoints": [
               {"checkpoint": "model/<a>-100", "at": 30.0, "seconds": 0.5, "bytes": 4000000, "kind": "full"},
               {"checkpoint": "model/<a>-200", "at": 60.0, "seconds": 1.5, "bytes": 250000, "kind": "delta"},
               {"checkpoint": "model/<a>-300", "at": 90.0, "seconds": 1.0, "bytes": None, "kind": ""}],
           "ranks": None,
           "failure": None, "running": False, "settings": {"workers": 1}}
VOID = {"meta", "polyline", "rect"}


class Balance(html.parser.HTMLParser):
    """Tags that are open at the end, and attributes that load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.seen = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing():
    told = Balance(page("run <1>", FIGURES, [Advice("Do & see", "why", 0.5)]))
    assert told.open == [] and told.loads == [] and "script" not in told.seen and told.seen.count("svg") == 8


def test_names_are_escaped():
    text = page("run <1>", FIGURES, [])
    assert "<b>user" not in text and "&lt;b&gt;user" in text and "run &lt;1&gt;" in text


def test_the_page_has_the_advice_with_its_gain():
    text = page("run", FIGURES, [Advice("Set workers to 2", "why", 0.5), Advice("Reduce", "why", 0.0)])
    assert "at most 50 % more steps per second" in text and "Steps do not become faster" in text
    assert "suggest no change" in page("run", FIGURES, [])


def rows_after(text, word):
    """The rows of the first table after a word, as lists of texts."""
    table = text[text.index(word):].split("<table>")[1].split("</table>")[0]
    return [re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in table.split("<tr>")[1:]]


def test_checkpoints_are_listed_newest_first_with_duration_size_and_kind():
    text = page("run", FIGURES, [])
    head, *rows = rows_after(text, "<h2>Checkpoints")
    assert [dict(zip(head, row)) for row in rows] == [
        {"newest checkpoints": "model/&lt;a&gt;-300", "kind": "-", "complete after": "90 s", "duration": "1.0 s",
         "MB": "-"},
        {"newest checkpoints": "model/&lt;a&gt;-200", "kind": "delta", "complete after": "60 s", "duration": "1.5 s",
         "MB": "0.2"},
        {"newest checkpoints": "model/&lt;a&gt;-100", "kind": "full", "complete after": "30 s", "duration": "0.5 s",
         "MB": "4.0"}]
    assert "Size of full checkpoints: mean 4.0, highest 4.0 MB" in text and "Size of delta checkpoints" in text
    assert text.index("model/&lt;a&gt;-200") < text.index("model/&lt;a&gt;-100") and "1.0 s on average" in text
    assert "saved no checkpoint" in page("run", {**FIGURES, "checkpoints": []}, [])


def test_the_page_states_how_the_run_ended():
    assert "The run had no error." in page("run", FIGURES, [])
    assert "The run continues" in page("run", {**FIGURES, "running": True}, [])
    text = page("run", {**FIGURES, "failure": "E140: <b>"}, [])
    assert "E140: &lt;b&gt;" in text and "no error" not in text


def test_ranks_have_a_bar_a_row_and_a_chart_each():
    rank = {"steps": 12.5, "sent_bytes": 2e6, "received_bytes": 1e3, "exchanging": 0.5, "daemon": "<r>"}
    ranks = [{**rank, "rank": 0, "waited": 0.25, "waits": [(1.0, 0.2), (2.0, 0.3)]},
             {**rank, "rank": 3, "waited": 0.0, "waits": []}]
    text = page("run", {**FIGURES, "ranks": {"count": 4, "slowest": 3, "slowest_s": 7.5, "ranks": ranks}}, [])
    assert "4 ranks, of which 2 have a record" in text and "longest for rank 3: 7.5 s" in text
    assert "other ranks: rank 0 25.0 %, rank 3 0.0 %" in text and "Waits of rank 0: mean 25.0, highest 30.0 %" in text
    assert rows_after(text, "<h2>Ranks")[1:] == [
        ["0", "12.50", "2,000.0", "1.0", "50.0 %", "25.0 %", "&lt;r&gt;"],
        ["3", "12.50", "2,000.0", "1.0", "50.0 %", "0.0 %", "&lt;r&gt;"]]
    assert Balance(text).open == []


def test_the_page_of_26_tables_is_small():
    assert len(page("run", {**FIGURES, "tables": [TABLE] * 26}, [])) < 3 << 20


def test_a_line_has_all_points_within_the_picture_and_its_figures_as_text():
    text = line_chart("Steps", [(10.0, 0.0), (20.0, 8.0), (30.0, 4.0)], "steps/s")
    points = [tuple(map(float, pair.split(","))) for pair in re.search('points="([^"]+)"', text).group(1).split()]
    assert points == [(70.0, 156.0), (395.0, 8.0), (720.0, 82.0)]
    assert "mean 4.0, highest 8.0 steps/s" in text


def test_charts_of_nothing_are_drawn():
    assert "<svg" in line_chart("Steps", [], "steps/s") and "<svg" in bars("Shares", [])
    assert "100.0 %" in bars("Shares", [("a", 7.0)])
