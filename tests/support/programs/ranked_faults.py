"""What goes wrong in the process of one rank, whatever program it runs."""
import collections
import os
import random
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Set, Tuple

from ascpipe.daemon.lifecycle import RESTARTS
from tests.support.programs.scenarios import status

INTERRUPTED_AFTER_S = 0.05  #: so that a step is under way, as a rule
MEAN_S = 0.07  #: between two kills
LATE_S = 2.0
NOTICED_S = 0.5  #: until a process knows of a death; training that has batches ahead may end before


def commit(kind: str) -> Dict[str, Any]:
    """Let it happen now; what is to be told of it. Kinds that are not the process's own are left alone."""
    faults: Dict[str, Callable[[], Dict[str, Any]]] = {
        "raise": _raise, "exit": lambda: sys.exit(0), "kill": lambda: _signal(os.getpid(), signal.SIGKILL),
        "stops": lambda: _signal(os.getpid(), signal.SIGSTOP), "workers": _kill_workers,
        "key_workers_stop": _stop_key_workers,
        "supervisor": _kill_supervisor, "interrupt": _interrupt, "late": _late}
    return faults[kind]() if kind in faults else {}


class Kills:
    """A thread that kills workers at random moments, each as often as it is replaced.

    Args:
        seed: of the moments and of the workers.
    """

    def __init__(self, seed: int) -> None:
        self._killed: Dict[Tuple[str, int], Set[int]] = collections.defaultdict(set)
        self._random, self._stop = random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """How many there were."""
        self._stop.set()
        self._thread.join(10.0)
        return sum(map(len, self._killed.values()))

    def _run(self) -> None:
        while not self._stop.wait(self._random.uniform(0.0, MEAN_S * 2)):
            workers = [((worker["kind"], worker["index"]), worker["pid"]) for worker in status()["workers"]]
            alive = [(worker, pid) for worker, pid in workers if pid and pid not in self._killed[worker]
                     and len(self._killed[worker]) < RESTARTS]  # one that was killed is listed until it is reaped
            if alive:
                worker, pid = self._random.choice(alive)
                self._killed[worker].add(pid)
                _signal(pid, signal.SIGKILL)


def _workers() -> List[int]:
    return [worker["pid"] for worker in status()["workers"] if worker["pid"]]


def _kill_workers() -> Dict[str, Any]:
    killed = _workers()
    for pid in killed:
        _signal(pid, signal.SIGKILL)
    return {"killed": len(killed)}


def _stop_key_workers() -> Dict[str, Any]:
    for worker in status()["workers"]:
        if worker["kind"] == "key" and worker["pid"]:
            _signal(worker["pid"], signal.SIGSTOP)
    return {}


def _kill_supervisor() -> Dict[str, Any]:
    _signal(status()["pid"], signal.SIGKILL)
    time.sleep(NOTICED_S)
    return {}


def _signal(pid: int, number: int) -> Dict[str, Any]:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # it has just been replaced
        pass
    return {}


def _interrupt() -> Dict[str, Any]:
    threading.Timer(INTERRUPTED_AFTER_S, _signal, (os.getpid(), signal.SIGINT)).start()
    return {}


def _late() -> Dict[str, Any]:
    time.sleep(LATE_S)
    return {}


def _raise() -> Dict[str, Any]:
    raise ValueError("the program's own error")
