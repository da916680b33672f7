"""Cost of metrics per step. Turns with scrapes and with scalars for TensorBoard alternate with turns without metrics.

One process trains the model of ``usual`` for both sides, because two processes with the same work differ by some
percent. In addition, a separate clock measures each part of metrics, which is more exact on a busy machine. In its
turns our side is scraped and writes scalars each second. This is ten times the usual rate.

Processor time is the time of the trainer, the daemon, its workers and the exporter. The notes have the wall time, which
is meaningful on idle machines.
"""
import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Dict, Iterator, List
from unittest import mock

from bench import processes, usual_sides, workloads
from bench.goals import SHARE, Goal
from bench.harness import Case, Contenders, median, repeated
from bench.programs import Program
from bench.usual_model import OURS, Setting
from bench.usual_monitored import monitored

SETTINGS = {"4x512": Setting(OURS, tables=4, rows=512, keys=20000),
            "26x1024": Setting(OURS, tables=26, rows=1024, keys=20000)}
STEPS = {"4x512": 1000, "26x1024": 200}  #: steps of a turn, which lasts some seconds
EVERY_S = 1.0
_WITH = "with metrics"
_WITHOUT = "without"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    setting = usual_sides.sized(SETTINGS[variant])
    port = _free_port()
    steps = workloads.sized(STEPS[variant], 3)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, ASCPIPE_METRICS_PORT=str(port)))
        from bench.sessions import tf  # the daemon, which the training starts, reads the variable above

        switch = _switch(tf, folder)
        step = stack.enter_context(monitored(setting, [switch]))
        scraper = stack.enter_context(Program([sys.executable, "-m", "bench.scraping_peer", str(port), str(EVERY_S)]))
        pids = processes.of_pipeline()
        clock = processes.cpu_clock([pid for of_kind in pids.values() for pid in of_kind])
        exporter = processes.cpu_clock(pids["metrics"])
        daemon = processes.cpu_clock(pids["daemon"])
        passed: Dict[str, List[float]] = {_WITH: [], _WITHOUT: []}
        turn = repeated(step, steps)
        scrapes = [0, 0]
        added: Dict[str, List[float]] = {"the exporter": [], "the thread of scalars": [], "the daemon": []}
        of_daemon = [0.0]
        used = [1.0]

        def plain() -> None:
            began = time.perf_counter()
            busy = daemon()
            all_of_it = time.process_time() + clock()
            turn()
            passed[_WITHOUT].append(time.perf_counter() - began)
            of_daemon[0] = daemon() - busy
            used[0] = time.process_time() + clock() - all_of_it

        def watched() -> None:
            scraper.tell("on")
            scrapes[0] = int(scraper.answer())
            switch.turn_on()
            began = time.perf_counter()
            busy = daemon()
            exported = exporter()
            turn()
            passed[_WITH].append(time.perf_counter() - began)
            for name, cost in (("the exporter", exporter() - exported), ("the thread of scalars", switch.thread_s()),
                               ("the daemon", daemon() - busy - of_daemon[0])):
                added[name].append(cost / used[0])
            switch.turn_off()
            scraper.tell("off")
            scrapes[1] = int(scraper.answer())

        def notes() -> Dict[str, str]:
            shares = [mine / theirs for mine, theirs in zip(passed[_WITH], passed[_WITHOUT])]
            return {"time that passes": "{:.3f} ms a step without, {:+.2f} % with metrics".format(
                1e3 * median(passed[_WITHOUT]) / steps, 100 * (median(shares) - 1)),
                "scrapes in a turn": str(scrapes[1] - scrapes[0]),
                **{name: "{:+.2f} % of all processor time".format(100 * median(costs))
                   for name, costs in added.items()}}

        lead = repeated(step, workloads.sized(usual_sides.LEAD, 2))
        clocks = dict.fromkeys(passed, lambda: time.process_time() + clock())
        yield Contenders(steps, {_WITH: watched, _WITHOUT: plain}, dict.fromkeys(passed, lead), clocks, notes=notes)


def _switch(tf: Any, folder: str) -> Any:
    """Return a hook that switches a ``SummaryHook`` on and off."""
    from ascpipe.tf import SummaryHook

    class Switch(tf.train.SessionRunHook):
        """Hook that calls a ``SummaryHook`` in some turns only."""

        def __init__(self) -> None:
            self._hook = SummaryHook(save_secs=EVERY_S, output_dir=folder)
            self._coord: Any = None

        def begin(self) -> None:
            self._hook.begin()

        def turn_on(self) -> None:
            """Activate the hook until ``turn_off``."""
            self._coord = tf.train.Coordinator()
            self._hook.after_create_session(None, self._coord)

        def thread_s(self) -> float:
            """Return the processor seconds of the hook's thread in this turn."""
            (thread,) = (one for one in threading.enumerate() if one.name == "ascpipe-summaries")
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))

        def turn_off(self) -> None:
            """Deactivate the hook, and let its thread exit."""
            self._coord.request_stop()
            self._coord = None
            for thread in threading.enumerate():
                if thread.name == "ascpipe-summaries":
                    thread.join()

        def before_run(self, run_context: Any) -> Any:
            return None if self._coord is None else self._hook.before_run(run_context)

        def after_run(self, run_context: Any, run_values: Any) -> None:
            if self._coord is not None:
                self._hook.after_run(run_context, run_values)

    return Switch()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


CASE = Case("metrics", "step", "one_program", tuple(SETTINGS), prepare,
            "processor time of a training step that is scraped and writes scalars, each second",
            {"4x512": [Goal(SHARE, 1.01, _WITHOUT)], "26x1024": [Goal(SHARE, 1.02, _WITHOUT)]}, quantity="CPU s",
            warm_up=1, repeats=15)
