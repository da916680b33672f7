"""Typical training program: `python -m bench.usual_program JSON`. Each side runs in a separate process.

JSON has the fields of ``usual_model.Setting``. The program trains a step and prints an answer. It then reads numbers of
steps from standard input, one per line, trains them, and prints an answer for each line. An answer has the fields of
``usual_sides.Side.counts`` since the first step. The program exits at the end of the input.
"""
import json
import sys
import tempfile
import time
from typing import Callable, ContextManager, Dict, List

from bench import slow_disk
from bench.usual_model import FBGEMM, ON_DISK, OURS, Setting

_OF_DISKS = (("tables", "fetches"), ("tables", "disk_waits"), ("disks", "rows_written"), ("disks", "written_bytes"))


class Turns:
    """Protocol of the requested numbers of steps.

    Args:
        side: side of the program. The other sides must not import ascpipe's library for TensorFlow.
        has_workers: whether the sides OURS and ON_DISK have additional processes.
    """

    def __init__(self, side: str, *, has_workers: bool = True) -> None:
        self._is_ours = side in (OURS, ON_DISK)
        self._has_workers = has_workers and self._is_ours
        self._is_on_disk = side == ON_DISK
        self._made_s = time.perf_counter()
        self._first_step_s = 0.0
        self._clocks: List[Callable[[], float]] = []
        self._began_s = 0.0

    def steps_to_do(self) -> int:
        """Print the answer for the completed steps, and return the next number of steps. 0 is the end of the input."""
        if not self._clocks:
            self._first_step_s = time.perf_counter() - self._made_s
            self._require_plain()
            self._clocks = self._clocks_of_processes()
            self._began_s = self._used_s()
        print(json.dumps({"used_s": self._used_s() - self._began_s, "first_step_s": self._first_step_s,
                          **self._of_disks()}), flush=True)
        return int(sys.stdin.readline() or 0)

    def _of_disks(self) -> Dict[str, int]:
        if not self._is_on_disk:
            return {}
        from ascpipe.tf.running.process import Process

        status = Process.current().running_pipeline().link.status()
        return {name: sum(counted[name] for counted in status[kind]) for kind, name in _OF_DISKS}

    def _require_plain(self) -> None:
        """Raise ``RuntimeError`` if a side without ascpipe has imported it. The import changes how datasets run."""
        found = [name for name in sys.modules if name.startswith(("ascpipe.tf", "mx_rec"))]
        if found and not self._is_ours:
            raise RuntimeError("plain TensorFlow was to be measured, but {} is imported".format(found[0]))

    def _used_s(self) -> float:
        return sum(clock() for clock in self._clocks)

    def _clocks_of_processes(self) -> List[Callable[[], float]]:
        if not self._has_workers:
            return [time.process_time]
        from bench import processes

        return [time.process_time,
                processes.cpu_clock([pid for found in processes.of_pipeline().values() for pid in found])]


def main(arguments: List[str]) -> None:
    """Train until the end of the input."""
    setting = Setting(**json.loads(arguments[0]))
    directory = _disk(setting)  # before the import of TensorFlow, because it forks
    turns = Turns(setting.side)
    if setting.estimator:
        from bench import usual_estimator

        usual_estimator.train(setting, turns.steps_to_do)
        return
    with _step_of(setting, directory) as step:
        steps = 1
        while steps:
            for _ in range(steps):
                step()
            steps = turns.steps_to_do()


def _step_of(setting: Setting, directory: str) -> ContextManager[Callable[[], object]]:
    if setting.side == FBGEMM:
        from bench import usual_fbgemm

        return usual_fbgemm.step_of(setting)
    from bench import usual_session

    return usual_session.step_of(setting, directory)


def _disk(setting: Setting) -> str:
    """Return the directory of rows on disk."""
    if not setting.delay_ms:
        return tempfile.gettempdir()
    folder = tempfile.mkdtemp()
    slow_disk.SlowDisk(folder).control["delay_ms"] = setting.delay_ms
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
