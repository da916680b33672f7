"""HTML page of a report: one file that contains no scripts and loads no other files."""
import html
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ascpipe.figures.advice import Advice, gain_text
from ascpipe.report.charts import bars, line_chart

_MOST_CHARTS = 40  # tables with a chart; further tables are only in the list
_MOST_RANKS = 16  # at most this many ranks have a chart
_MOST_CHECKPOINTS = 50  # the list contains at most this many checkpoints, newest first
_STYLE = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid gray}th:first-child,td:first-child{text-align:left;
overflow-wrap:anywhere;min-width:9rem}svg{width:100%;height:auto}figure{margin:1rem 0}figcaption{font-size:.9rem}
.line{fill:none;stroke:#2a7ae2;stroke-width:2}.bar{fill:#2a7ae2}text{font:12px system-ui;fill:currentColor}
.axis{text-anchor:end}pre{overflow-x:auto}
"""


def page(title: str, figures: Mapping[str, Any], advice: Sequence[Advice]) -> str:
    """Return the page.

    Args:
        title: name of the run.
        figures: figures of ``ascpipe report --json``.
        advice: what to change.
    """
    run = figures["run"]
    parts = [
        "<h1>{}</h1>".format(html.escape(title)),
        _table(["", ""], [[name, str(value)] for name, value in run.items()]),
        "<h2>What to change</h2>", advice_list(advice),
        "<h2>Throughput</h2>",
        line_chart("Training steps", figures["steps"], "steps/s"), line_chart("Ids", figures["ids"], "ids/s"),
        "<h2>Where the time went</h2>",
        bars("Share of the samples by bottleneck", sorted(figures["bottlenecks"].items(), key=lambda one: -one[1])),
        bars("Share of the samples in which a process was awake", sorted(figures["awake"].items())),
        "<h2>Tables</h2>", _table(
            ["table", "rows", "device rows", "host rows", "device hit", "swapped in", "evicted", "read from disk",
             "waits for saves"],
            [[table["name"], *("{:,}".format(table[name]) for name in ("rows", "device_rows", "home_rows")),
              "-" if table["device_hit_rate"] is None else "{:.1f} %".format(100 * table["device_hit_rate"]),
              *("{:,}".format(table[name]) for name in ("loads", "evicted", "fetches", "save_waits"))]
             for table in figures["tables"]])]
    for table in figures["tables"][:_MOST_CHARTS]:
        parts.append(line_chart("Rows of {}".format(table["name"]), table["growth"], "rows"))
    parts += ["<h2>Ranks</h2>", *_ranks(figures["ranks"]),
              "<h2>Checkpoints</h2>", *_checkpoints(figures["checkpoints"]),
              "<h2>Errors</h2>", "<p>{}</p>".format(html.escape(figures["failure"] or (
                  "The run continues, and has had no error." if figures["running"] else "The run had no error."))),
              "<h2>Settings</h2>", "<pre>{}</pre>".format(html.escape(json.dumps(figures["settings"], indent=1)))]
    return ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><meta name=\"viewport\" "
            "content=\"width=device-width\"><style>{}</style></head><body>{}</body></html>\n").format(
                html.escape(title), _STYLE, "\n".join(parts))


def _ranks(figures: Optional[Mapping[str, Any]]) -> List[str]:
    """Return the parts of the page about the ranks of a run."""
    if figures is None:
        return ["<p>The run had one rank.</p>"]
    ranks = figures["ranks"]
    parts = [
        "<p>The run had {} ranks, of which {} have a record on this machine. Other ranks waited longest for rank {}: "
        "{:,.1f} s.</p>".format(figures["count"], len(ranks), figures["slowest"], figures["slowest_s"]),
        bars("Share of time in which a rank waited for other ranks",
             [("rank {}".format(rank["rank"]), rank["waited"]) for rank in ranks]),
        _table(["rank", "steps/s", "kB sent/s", "kB received/s", "in exchanges", "waited", "daemon"], [
            [str(rank["rank"]), "{:,.2f}".format(rank["steps"]),
             *("{:,.1f}".format(rank[name] / 1e3) for name in ("sent_bytes", "received_bytes")),
             *("{:.1f} %".format(100 * rank[name]) for name in ("exchanging", "waited")), rank["daemon"]]
            for rank in ranks])]
    return parts + [line_chart("Waits of rank {}".format(rank["rank"]),
                               [(at, 100 * share) for at, share in rank["waits"]], "% of the time")
                    for rank in ranks[:_MOST_RANKS]]


def _checkpoints(saves: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return the HTML elements that list the checkpoints of a run."""
    if not saves:
        return ["<p>The run saved no checkpoint.</p>"]
    return [
        "<p>The run saved {:,} checkpoints. A save took {:.1f} s on average.</p>".format(
            len(saves), sum(save["seconds"] for save in saves) / len(saves)),
        line_chart("Duration of saves", [(save["at"], save["seconds"]) for save in saves], "s"),
        *(line_chart("Size of {} checkpoints".format(kind), points, "MB") for kind, points in _sizes(saves).items()),
        _table(["newest checkpoints", "kind", "complete after", "duration", "MB"],
               [[save["checkpoint"], save["kind"] or "-", "{:,.0f} s".format(save["at"]),
                 "{:.1f} s".format(save["seconds"]), "-" if save["bytes"] is None else "{:,.1f}".format(
                     save["bytes"] / 1e6)] for save in reversed(saves[-_MOST_CHECKPOINTS:])])]


def _sizes(saves: Sequence[Mapping[str, Any]]) -> Dict[str, List[Tuple[float, float]]]:
    """Return points (seconds, MB) by kind of checkpoint. Checkpoints of unknown size are left out."""
    found: Dict[str, List[Tuple[float, float]]] = {}
    for save in saves:
        if save["bytes"] is not None:
            found.setdefault(save["kind"], []).append((save["at"], save["bytes"] / 1e6))
    return found


def advice_list(advice: Sequence[Advice]) -> str:
    """Return the advice as an HTML list."""
    if not advice:
        return "<p>The figures of this run suggest no change.</p>"
    return "<ol>{}</ol>".format("".join("<li><b>{}.</b> {}. {}</li>".format(
        html.escape(one.change), html.escape(one.reason), gain_text(one)) for one in advice))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cells(kind: str, texts: Sequence[str]) -> str:
        return "".join("<{0}>{1}</{0}>".format(kind, html.escape(text)) for text in texts)

    lines: List[Tuple[str, Sequence[str]]] = [("td", row) for row in rows]
    if any(columns):
        lines.insert(0, ("th", columns))
    return "<div class=\"wide\"><table>{}</table></div>".format("".join(
        "<tr>{}</tr>".format(cells(kind, texts)) for kind, texts in lines))
