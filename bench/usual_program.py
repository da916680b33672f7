"""A training program as users write it, one side in a process of its own: `python -m bench.usual_program JSON`.

JSON holds the fields of ``usual_model.Setting``. The program trains a step and answers; then it reads numbers of steps
from standard input, a line each, trains them, and answers each. An answer is what ``usual_sides.Side.counts`` has,
since the first one. It ends with the input.
"""
import json
import sys
import tempfile
import time
from typing import Callable, Dict, List

from bench import slow_disk
from bench.usual_model import ON_DISK, OURS, Setting

_OF_DISKS = (("tables", "fetches"), ("tables", "disk_waits"), ("disks", "rows_written"), ("disks", "written_bytes"))


class Turns:
    """Numbers of steps that are asked for; asked for the next one, it answers that those before are done.

    Args:
        side: of the program: OURS, ON_DISK or another, which has no process beside its own.
    """

    def __init__(self, side: str) -> None:
        self._is_ours = side in (OURS, ON_DISK)
        self._is_on_disk = side == ON_DISK
        self._made_s = time.perf_counter()
        self._first_step_s = 0.0
        self._clocks: List[Callable[[], float]] = []
        self._began_s = 0.0

    def steps_to_do(self) -> int:
        """After the first step, and after the last one that was asked for; 0: the input has ended."""
        if not self._clocks:
            self._first_step_s = time.perf_counter() - self._made_s
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

    def _used_s(self) -> float:
        return sum(clock() for clock in self._clocks)

    def _clocks_of_processes(self) -> List[Callable[[], float]]:
        if not self._is_ours:
            return [time.process_time]
        from bench import processes

        return [time.process_time,
                processes.cpu_clock([pid for found in processes.of_pipeline().values() for pid in found])]


def main(arguments: List[str]) -> None:
    """Train until the input ends."""
    setting = Setting(**json.loads(arguments[0]))
    directory = _disk(setting)  # it forks, so before TensorFlow is there
    turns = Turns(setting.side)
    if setting.estimator:
        from bench import usual_estimator

        usual_estimator.train(setting, turns.steps_to_do)
        return
    from bench import usual_session

    with usual_session.step_of(setting, directory) as step:
        steps = 1
        while steps:
            for _ in range(steps):
                step()
            steps = turns.steps_to_do()


def _disk(setting: Setting) -> str:
    """Where rows on disk lie."""
    if not setting.delay_ms:
        return tempfile.gettempdir()
    folder = tempfile.mkdtemp()
    slow_disk.SlowDisk(folder).control["delay_ms"] = setting.delay_ms
    return folder


if __name__ == "__main__":
    main(sys.argv[1:])
