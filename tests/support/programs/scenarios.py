"""Runs scenarios of a program one after the other, each with a pipeline of its own."""
import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow as tf

from ascpipe.tf.running.process import Process
from mx_rec.core.asc.manager import start_asc_pipeline
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.support.tensorflows import use_tensorflow_1
from tests.support.waiting import wait_until

LIMIT_S = float(os.environ.get("TEST_SCENARIO_LIMIT_S", "100"))  #: of a scenario

Scenario = Callable[..., Dict[str, Any]]


def main(scenarios: Dict[str, Scenario], *wanted_ones: str) -> None:
    """Run scenarios (``name`` or ``name:argument,...``), else those of the command line; a line of JSON each."""
    use_tensorflow_1()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell has it ignored
    for wanted in wanted_ones or sys.argv[1:]:
        name, _, arguments = wanted.partition(":")
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        started = time.monotonic()
        tf.compat.v1.reset_default_graph()
        init()
        try:
            answer = scenarios[name](*[argument for argument in arguments.split(",") if argument])
        finally:
            terminate_config_initializer()
        faulthandler.cancel_dump_traceback_later()
        answer.update(scenario=wanted, seconds=round(time.monotonic() - started, 2))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def started(threads: int = 1) -> Iterator[tf.compat.v1.Session]:
    """The pipeline of the default graph, and a session with initialised variables."""
    start_asc_pipeline()
    with session(threads) as running:
        running.run(tf.compat.v1.global_variables_initializer())
        yield running


def session(threads: int = 1) -> tf.compat.v1.Session:
    """A session with that many threads of each kind."""
    return tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads))


def status() -> Dict[str, Any]:
    """Of the daemon."""
    return Process.current().running_pipeline().link.status()


def daemon_name() -> str:
    """Of the daemon that serves this process."""
    return Process.current().running_pipeline().link.name


def workers(kind: str) -> List[int]:
    """Pids of the workers of a kind that run now."""
    return [worker["pid"] for worker in status()["workers"] if worker["kind"] == kind and worker["pid"]]


def wait_for(waiter: str, sentence: str) -> None:
    """Wait until a thread waits for something; both as ``ascpipe status`` shows them."""
    wait_until(lambda: any(wait["who"] == waiter and sentence in wait["waits_for"] for wait in status()["waits"]),
               what="{} waits for {}".format(waiter, sentence))


def wait_full(stream: int = 0, *, parked: bool) -> None:
    """Until the ring of a stream has no room (and batches wait for some)."""

    def is_full() -> bool:
        ring = next(ring for ring in status()["rings"] if ring["stream"] == stream)
        return ring["depth"] == ring["frame_count"] and (not parked or ring["parked"] > 0)

    wait_until(is_full, what="a full ring")


class Background:
    """A call in a thread of its own, with what it returned or raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self.result, self.error = call, None, None  # type: Callable[[], Any], Any, Optional[BaseException]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001  (kept for a later question)
            self.error = error

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> "Background":
        """Wait for its end."""
        wait_until(self.is_over, what="the call in the background to end")
        self._thread.join()
        return self

    def returned(self) -> Any:
        """What the call returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.result


def seconds_of(call: Callable[[], Any]) -> float:
    """How long a call took; it is aborted with the scenario if it hangs."""
    began = time.monotonic()
    call()
    return round(time.monotonic() - began, 3)
