"""Time until the page of the dashboard has figures, in Chromium, while a program with 26 tables trains.

The time begins with the request for the page, as the browser measures it. ``hour`` has a history of one hour, which is
the longest history.
"""
import contextlib
import sys
import threading
from typing import Callable, Iterator

from ascpipe.dashboard.history import POINTS
from bench import usual_sides
from bench.cases.dashboard import SETTING, first_figures_ms
from bench.chromium import Chromium
from bench.goals import COST, Goal
from bench.harness import Case, Contenders
from bench.programs import Program
from bench.usual_monitored import monitored

VARIANTS = {"new": 1, "hour": POINTS}  #: number of points of the history
_OURS = "first figures"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    from ascpipe.tf.running.process import Process

    with monitored(usual_sides.sized(SETTING)) as step, _repeated(step):
        name = Process.current().running_pipeline().link.name
        with Program([sys.executable, "-m", "bench.page_with_history", name, str(VARIANTS[variant])]) as server:
            address = server.answer()
            with _chromium() as browser:
                tab = browser.open_tab()
                passed = [0.0]

                def load() -> None:
                    passed[0] += first_figures_ms(browser, tab, address) / 1e3
                    browser.call("Page.navigate", {"url": "about:blank"}, tab)

                yield Contenders(1, {_OURS: load}, clocks={_OURS: lambda: passed[0]})


@contextlib.contextmanager
def _repeated(step: Callable[[], object]) -> Iterator[None]:
    """Run steps in another thread until the end of the block."""
    is_over = threading.Event()

    def train() -> None:
        while not is_over.is_set():
            step()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextlib.contextmanager
def _chromium() -> Iterator[Chromium]:
    browser = Chromium()
    try:
        yield browser
    finally:
        browser.close()


CASE = Case("page", "page", "one_program", tuple(VARIANTS), prepare,
            "time until the page of the dashboard has figures, in Chromium", {
                variant: [Goal(COST, 1.0)] for variant in VARIANTS})
