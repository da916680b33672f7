"""Runs a soak: a daemon, a trainer, faults and samples, until it is over."""
import contextlib
import glob
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import psutil

from ascpipe.errors import AscpipeError
from tests.soak import events, faults
from tests.soak.injector import Injector
from tests.soak.judge import Verdict, judge
from tests.soak.samples import Sample, look, write
from tests.support.daemons import ROOT, DaemonProcess
from tests.support.programs.running import environment
from tests.support.waiting import wait_until

RING_BYTES = 1 << 20  #: some hundred batches: all of it is in use soon
WAIT_TIMEOUT_S = 120  #: of a step; the trainer then says for whom it waited
SILENT_S = 180.0  #: without a further step or event: the trainer hangs
BEGINS_WITHIN_S = 120.0
ENDS_WITHIN_S, BROKEN_ENDS_WITHIN_S = 180.0, 30.0
PROGRESS_S = 30.0
LOOK_S = 0.1  #: at most between two looks


class Plan(NamedTuple):
    """What is to be done.

    Attributes:
        seconds: of training, from the first step.
        seed: of everything.
        folder: for what it writes; it is there.
        warm_up_s: memory is compared after that.
        mean_s: between two faults.
        patience_s: the daemon's ``worker_patience_s``.
        progress_s: between two lines of progress.
        plant_at: the step before which a bit of a row is flipped; -1: none.
    """

    seconds: float
    seed: int
    folder: str
    warm_up_s: float
    mean_s: float
    patience_s: float
    progress_s: float
    plant_at: int

    @property
    def sample_s(self) -> float:
        """Between two looks at memory: enough of them, and not more than are needed."""
        return min(5.0, max(0.25, self.seconds / 400))


#: what must have happened to rows of each table, or it was not trained as it should be
MOVED: Dict[str, Tuple[str, ...]] = {
    "user": (), "item": ("loads", "evicted"), "place": ("loads", "evicted", "fetches", "spills")}


class Outcome(NamedTuple):
    """How it ended.

    Attributes:
        broken: what broke, sentences.
        counts: steps, kills, stalls and the others, in the order in which they are said.
        moved: by table, how many rows were swapped in, evicted, read from disk and written there.
        verdict: of the samples.
        samples: of all processes.
    """

    broken: List[str]
    counts: Dict[str, int]
    moved: Dict[str, Dict[str, int]]
    verdict: Verdict
    samples: List[Sample]


class Soak:
    """One run, in ``with``: what it has started has ended behind it.

    Args:
        plan: what is to be done.
        say: takes lines for people.
    """

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._plan, self._say = plan, say
        self._settings = {"wait_timeout_s": WAIT_TIMEOUT_S, "ring_bytes": RING_BYTES}
        self._told: Dict[str, Any] = {}  # by the trainer, last
        self._unread = b""
        self._samples: List[Sample] = []
        self._broken: List[str] = []
        self._moved: Dict[str, Dict[str, int]] = {}
        self._is_interrupted = False

    def __enter__(self) -> "Soak":
        plan = self._plan
        for name in ("rows", "checkpoints"):
            os.makedirs(self._path(name), exist_ok=True)
        with contextlib.ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM):
                stack.callback(signal.signal, number, signal.signal(number, self._interrupt))
            self._daemon = DaemonProcess("soak-{}".format(os.getpid()), workers=2, table_workers=2,
                                         worker_patience_s=plan.patience_s, **self._settings)
            stack.callback(self._leave_daemon)
            with open(self._path("trainer.log"), "wb") as log:
                self._trainer = subprocess.Popen(
                    [sys.executable, "-m", "tests.soak.trainer", str(plan.seed), plan.folder, str(plan.plant_at)],
                    cwd=ROOT, env=environment(name=self._daemon.name, **self._settings), stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=log, start_new_session=True)
            stack.callback(self._kill_trainer)
            self._sample_file = stack.enter_context(open(self._path("samples.jsonl"), "w"))
            self._fault_log = stack.enter_context(open(self._path("faults.jsonl"), "w"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def run(self) -> Outcome:
        """Train until the time is over, something breaks, or a signal comes."""
        injector: Optional[Injector] = None
        children = [self._daemon.pid]
        try:
            if self._await_first_step():
                plan = self._plan
                injector = Injector(self._daemon, faults.faults(plan.seed, plan.mean_s), plan.patience_s,
                                    self._fault_log, time.monotonic())
                self._train(injector)
                children += injector.processes().values()
                self._moved = {table["name"]: {name: table[name] for name in MOVED[table["name"]]}
                               for table in self._daemon.status()["tables"]}
        except AscpipeError as error:  # of the daemon, when it is asked for its state
            self._broken.append("{}: {}".format(type(error).__name__, error))
        finally:
            if injector is not None:
                injector.end()
        self._end_trainer()
        self._end_daemon(children)
        verdict = judge(self._samples, self._plan.warm_up_s)
        counts = self._counts(injector)
        if not self._broken:
            happened = {**counts, **{"{} of {}".format(name, table): count for table, of_table in self._moved.items()
                                     for name, count in of_table.items()}}
            self._broken += ["there were no {}: give it more time".format(name) for name, count in happened.items()
                             if not count and (name == "steps" or not self._is_interrupted)]
        return Outcome(self._broken + verdict.problems, counts, self._moved, verdict, self._samples)

    def _await_first_step(self) -> bool:
        """Whether the training has begun."""
        deadline = time.monotonic() + BEGINS_WITHIN_S
        while not self._told.get("steps") and not self._is_over():
            self._read(LOOK_S)
            if time.monotonic() > deadline:
                self._broken.append("the trainer has not begun within {:g} s".format(BEGINS_WITHIN_S))
        return not self._is_over()

    def _train(self, injector: Injector) -> None:
        plan, began = self._plan, time.monotonic()
        sample_at, said_at, said_steps, moved_at, told = began, began, 0, began, self._told
        while not self._is_over():
            now = time.monotonic()
            if now - began >= plan.seconds:
                return
            trouble = injector.look(now)
            if trouble:
                self._broken.append(trouble)
            if now >= sample_at:
                sample_at = now + plan.sample_s
                self._sample(injector, now - began)
            if self._told != told:
                told, moved_at = self._told, now
            elif now - moved_at > SILENT_S:
                self._broken.append("no step within {:g} s, after {}".format(SILENT_S, told["steps"]))
            if now - said_at >= plan.progress_s:
                self._say(self._progress(injector, now - began, (told["steps"] - said_steps) / (now - said_at)))
                said_at, said_steps = now, told["steps"]
            self._read(max(0.0, min(LOOK_S, injector.due - now, sample_at - now)))

    def _sample(self, injector: Injector, at_s: float) -> None:
        named = {"supervisor": self._daemon.pid, "trainer": self._trainer.pid, **injector.processes()}
        for role, pid in named.items():
            sample = look(role, pid, at_s)
            if sample is not None:
                self._samples.append(sample)
                write(self._sample_file, sample)

    def _end_trainer(self) -> None:
        """It compares all that there is once more, and ends."""
        with contextlib.suppress(BrokenPipeError):
            self._trainer.stdin.close()  # type: ignore
        deadline = time.monotonic() + (BROKEN_ENDS_WITHIN_S if self._broken else ENDS_WITHIN_S)
        while self._trainer.poll() is None and time.monotonic() < deadline:
            self._read(LOOK_S)
        self._read(0.0)
        if self._trainer.poll() is None:
            self._broken.append("the trainer hangs; where is in trainer.log")
            self._trainer.send_signal(signal.SIGABRT)  # it writes its stacks
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._trainer.wait(20)
        elif (self._trainer.returncode or not self._told.get("ended")) and not self._broken:
            self._broken.append("the trainer ended with {}; why is in trainer.log".format(self._trainer.returncode))

    def _end_daemon(self, pids: List[int]) -> None:
        failure = None
        with contextlib.suppress(AscpipeError):
            failure = self._daemon.status()["failure"]
        if failure:
            self._broken.append("the daemon: {}".format(failure))
        self._leave_daemon()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
            return
        self._broken.append("processes of the daemon were left: {}".format(list(filter(psutil.pid_exists, pids))))

    def _leave_daemon(self) -> None:
        """End it, if that is still to be done; its logs stay."""
        for log in glob.glob(os.path.join(self._daemon.run.path, "*.log")):
            shutil.copy(log, self._plan.folder)
        try:
            self._daemon.end()
        except (AscpipeError, subprocess.TimeoutExpired) as error:  # it does not answer, or does not end
            self._broken.append("the daemon was killed: {}".format(error))
            os.kill(self._daemon.pid, signal.SIGKILL)
            self._daemon.end()

    def _kill_trainer(self) -> None:
        if self._trainer.poll() is None:
            self._trainer.kill()
        for pipe in (self._trainer.stdin, self._trainer.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()  # type: ignore
        self._trainer.wait()

    def _counts(self, injector: Optional[Injector]) -> Dict[str, int]:
        told = self._told
        return {"steps": told.get("steps", 0), "kills": injector.kills if injector else 0,
                "stalls": injector.stalls if injector else 0,
                "saves": sum(told.get(name, 0) for name in events.SAVES), "restores": told.get(events.RESTORE, 0),
                "messages": injector.messages if injector else 0}

    def _progress(self, injector: Injector, at_s: float, rate: float) -> str:
        newest = {sample.role: sample for sample in self._samples[-20:]}
        daemon = sum(sample.anon_kib for role, sample in newest.items() if role != "trainer") / 1024
        trainer = newest["trainer"].anon_kib / 1024 if "trainer" in newest else 0.0
        return "{:6.0f} s  {}  {:.0f} steps/s  stopped for good={}  daemon {:.1f} MiB  trainer {:.1f} MiB".format(
            at_s, " ".join("{}={}".format(*item) for item in self._counts(injector).items()), rate, injector.stops,
            daemon, trainer)

    def _read(self, for_s: float) -> None:
        """What the trainer says, if it says something within some seconds."""
        stdout = self._trainer.stdout
        if not select.select([stdout], [], [], for_s)[0]:  # type: ignore
            return
        data = os.read(stdout.fileno(), 1 << 16)  # type: ignore
        if not data:
            if self._trainer.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._trainer.wait(for_s)
            return
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            told = json.loads(line.decode())
            if "broke" in told:
                self._broken.append(told["broke"])
            else:
                self._told = told

    def _is_over(self) -> bool:
        return bool(self._broken) or self._is_interrupted or self._trainer.poll() is not None

    def _interrupt(self, *_: Any) -> None:
        self._is_interrupted = True

    def _path(self, name: str) -> str:
        return os.path.join(self._plan.folder, name)
