"""The page of a report: whole, without scripts or foreign data, small, with escaped names."""
import html.parser
import re

from ascpipe.report.advice import Advice
from ascpipe.report.charts import bars, line_chart
from ascpipe.report.page import page

TABLE = {"name": "<b>user", "rows": 5, "device_rows": 10, "home_rows": 0, "device_hit_rate": None, "loads": 0,
         "evicted": 0, "fetches": 0, "save_waits": 0, "growth": [(float(at), float(at)) for at in range(720)]}
FIGURES = {"run": {"daemon": "unit", "steps per second": 12.5}, "steps": [(0.0, 1.0), (1.0, 3.0)], "ids": [],
           "bottlenecks": {"step": 0.75, "disk": 0.25}, "awake": {"key worker 0": 0.5}, "tables": [TABLE],
           "checkpoints": [{"checkpoint": "model/<a>-100", "at": 30.0, "seconds": 0.5},
                           {"checkpoint": "model/<a>-200", "at": 60.0, "seconds": 1.5}],
           "failure": None, "settings": {"workers": 1}}
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
    assert told.open == [] and told.loads == [] and "script" not in told.seen and told.seen.count("svg") == 6


def test_names_are_escaped():
    text = page("run <1>", FIGURES, [])
    assert "<b>user" not in text and "&lt;b&gt;user" in text and "run &lt;1&gt;" in text


def test_the_page_has_the_advice_with_its_gain():
    text = page("run", FIGURES, [Advice("Set workers to 2", "why", 0.5), Advice("Reduce", "why", 0.0)])
    assert "at most 50 % more steps per second" in text and "Steps do not become faster" in text
    assert "suggest no change" in page("run", FIGURES, [])


def test_checkpoints_are_listed_newest_first_with_their_duration():
    text = page("run", FIGURES, [])
    assert text.index("model/&lt;a&gt;-200") < text.index("model/&lt;a&gt;-100") and "1.0 s on average" in text
    assert "saved no checkpoint" in page("run", {**FIGURES, "checkpoints": []}, [])


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
