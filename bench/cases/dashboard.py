"""Cost of open dashboards per step. Turns with viewers alternate with turns without viewers.

One process trains the model of ``usual`` for both sides, because two processes with the same work differ by some
percent. The daemon serves the dashboard in all turns. Viewers are 20 connections that read the events, or a page in
Chromium. They are opened before a turn, so a turn measures pages that are open.

Processor time is the time of the trainer, the daemon, its workers and the exporter. Viewers cause work of the exporter,
and perhaps of the daemon. Their own clocks are more exact on a busy machine, and are in the notes.
"""
import contextlib
import os
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple
from unittest import mock

from bench import processes, usual_sides, workloads
from bench.chromium import Chromium
from bench.goals import SHARE, Goal
from bench.harness import Case, Contenders, median, repeated
from bench.programs import Program
from bench.usual_model import OURS, Setting
from bench.usual_monitored import monitored

READERS = 20
SETTING = Setting(OURS, tables=26, rows=1024, keys=20000)
STEPS = 600  #: steps of a turn, which lasts more than the interval of events
WITHOUT = "without viewers"
_FIRST_FIGURES = """
new Promise((resolve) => new PerformanceObserver((found) => found.getEntriesByName("figures").forEach(
  (mark) => resolve(mark.startTime))).observe({type: "mark", buffered: true}))
"""
_POINTS = "typeof state === 'undefined' || state.history === null ? 0 : state.history.time.length"
_READERS = "26x1024-readers"
_PAGE = "26x1024-page"


class Viewers(NamedTuple):
    """Viewers of a page. ``seen`` returns the number of events that they have received."""

    name: str
    open: Callable[[], None]
    close: Callable[[], None]
    seen: Callable[[], int]


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    setting = usual_sides.sized(SETTING)
    steps = workloads.sized(STEPS, 3)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, ASCPIPE_DASHBOARD="1"))
        step = stack.enter_context(monitored(setting))
        viewers = stack.enter_context({_READERS: _readers, _PAGE: _page}[variant](_address()))
        pids = processes.of_pipeline()
        exporter = processes.children_of(pids["daemon"][0])["metrics"]
        parts = {"the exporter": processes.cpu_clock([exporter]), "the daemon": processes.cpu_clock(pids["daemon"])}
        others = processes.cpu_clock([exporter, *(pid for of_kind in pids.values() for pid in of_kind)])
        lead = repeated(step, workloads.sized(usual_sides.LEAD, 2))
        turn = repeated(step, steps)
        turns: Dict[str, List[Dict[str, float]]] = {viewers.name: [], WITHOUT: []}
        seen: List[int] = []

        def clock() -> float:
            return time.process_time() + others()

        def measured(name: str) -> None:
            clocks = {**parts, "all": clock, "time that passes": time.perf_counter}
            before = {part: read() for part, read in clocks.items()}
            turn()
            turns[name].append({part: read() - before[part] for part, read in clocks.items()})

        def watched() -> None:
            received = viewers.seen()
            measured(viewers.name)
            seen.append(viewers.seen() - received)

        def before_watched() -> None:
            viewers.open()
            lead()

        def before_plain() -> None:
            viewers.close()
            lead()

        def notes() -> Dict[str, str]:
            def of(name: str, part: str) -> float:
                return median([used[part] for used in turns[name]])

            shares = [with_them["time that passes"] / without["time that passes"]
                      for with_them, without in zip(turns[viewers.name], turns[WITHOUT])]
            return {"events in a turn": "{:.0f}".format(median([float(count) for count in seen])),
                    "time that passes": "{:+.2f} % with viewers".format(100 * (median(shares) - 1)),
                    **{part: "{:.2f} % of all processor time without viewers, {:.2f} % with viewers".format(
                        *(100 * of(name, part) / of(name, "all") for name in (WITHOUT, viewers.name)))
                       for part in parts}}

        yield Contenders(steps, {viewers.name: watched, WITHOUT: lambda: measured(WITHOUT)},
                         {viewers.name: before_watched, WITHOUT: before_plain},
                         dict.fromkeys(turns, clock), notes=notes)


def _address() -> str:
    from ascpipe import names
    from ascpipe.tf.running.process import Process

    return names.dashboard_of(names.run_dir(Process.current().running_pipeline().link.name))


@contextlib.contextmanager
def _readers(address: str) -> Iterator[Viewers]:
    """Yield connections that read the events, in a process of their own."""
    with Program([sys.executable, "-m", "bench.event_readers", address, str(READERS)]) as program:
        def told(words: str) -> int:
            program.tell(words)
            return int(program.answer())

        yield Viewers("{} readers of events".format(READERS), lambda: _nothing(told("open")),
                      lambda: _nothing(told("close")), lambda: told("count"))


@contextlib.contextmanager
def _page(address: str) -> Iterator[Viewers]:
    """Yield a page in Chromium."""
    browser = Chromium()
    try:
        tab = browser.open_tab()
        yield Viewers("a page in Chromium", lambda: _nothing(first_figures_ms(browser, tab, address)),
                      lambda: _nothing(browser.call("Page.navigate", {"url": "about:blank"}, tab)),
                      lambda: int(browser.value_of(_POINTS, tab)))
    finally:
        browser.close()


def first_figures_ms(browser: Chromium, tab: str, address: str) -> float:
    """Open a page in a tab. Return the milliseconds from the request for the page until the page has figures."""
    browser.call("Page.navigate", {"url": address}, tab)
    return float(browser.value_of(_FIRST_FIGURES, tab))


def _nothing(_: Any) -> None:
    """Drop a result."""


CASE = Case("dashboard", "step", "one_program", (_READERS, _PAGE), prepare,
            "processor time of a training step with open dashboards",
            {variant: [Goal(SHARE, 1.01, WITHOUT)] for variant in (_READERS, _PAGE)}, quantity="CPU s", warm_up=1,
            repeats=31)
